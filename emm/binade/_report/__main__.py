# SPDX-License-Identifier: Apache-2.0
"""python -m binade._report"""

import sys

from binade._report import main

sys.exit(main(sys.argv[1:]))
