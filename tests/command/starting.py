# SPDX-License-Identifier: Apache-2.0
"""The command as a process of its own."""

import os
import subprocess
import sys

COMMAND = [sys.executable, "-B", "-m", "binade"]


def run(*arguments, **environment):
    """What became of it; a variable that is None is not set."""
    wanted = {**os.environ, **environment}
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True,
        timeout=120, check=False, stdin=subprocess.DEVNULL,
        env={name: str(value) for name, value in wanted.items()
             if value is not None})
