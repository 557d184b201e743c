# SPDX-License-Identifier: Apache-2.0
"""The command line: moiety, or python -m moiety."""

import sys

from moiety._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
