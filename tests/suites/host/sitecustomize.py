# SPDX-License-Identifier: Apache-2.0
"""Python runs this in each process that has this folder on PYTHONPATH, so also
in those that numba's tests start: numba-cuda 0.30 cannot be imported with
NumPy 2.5, which has no row_stack any more."""

import numpy

if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
