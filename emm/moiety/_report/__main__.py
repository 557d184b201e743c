# SPDX-License-Identifier: Apache-2.0
"""python -m moiety._report"""

import sys

from moiety._report import main

sys.exit(main(sys.argv[1:]))
