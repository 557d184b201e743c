# SPDX-License-Identifier: Apache-2.0
"""The command line: binade, or python -m binade."""

import sys

from binade._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
