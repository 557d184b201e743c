# SPDX-License-Identifier: Apache-2.0
"""The command as a process of its own."""

import contextlib
import os
import pty
import subprocess
import sys

COMMAND = [sys.executable, "-B", "-m", "moiety"]


def run(*arguments, command=COMMAND, **environment):
    """What became of it; a variable that is None is not set."""
    wanted = {**os.environ, **environment}
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True,
        timeout=120, check=False, stdin=subprocess.DEVNULL,
        env={name: str(value) for name, value in wanted.items()
             if value is not None})


def run_on_terminal(*arguments, command=COMMAND):
    """(exit code, standard output, what the terminal has that is standard
    error)"""
    ours, theirs = pty.openpty()
    with subprocess.Popen([*command, *map(str, arguments)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=theirs, text=True) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal ends
            while piece := os.read(ours, 4096):
                shown += piece
        os.close(ours)
        out = process.stdout.read()
    return process.returncode, out, shown.decode()
