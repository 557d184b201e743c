# SPDX-License-Identifier: Apache-2.0
"""numba's memory manager: what moiety.numba is made of."""
