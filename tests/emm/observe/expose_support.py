# SPDX-License-Identifier: Apache-2.0
"""A process that exposes pools, and the command line that asks it."""

import io
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from moiety import observe
from moiety.__main__ import main


@contextmanager
def exposed():
    """This process serves at the path; not in pytest's folders, as a socket's
    path is short."""
    with tempfile.TemporaryDirectory(prefix="moiety-") as folder:
        path = os.path.join(folder, "s")
        observe.start(path)
        try:
            yield path
        finally:
            observe.stop()


def run(*arguments):
    """The command line in this process, which may serve meanwhile."""
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        try:
            code = main(list(map(str, arguments)))
        except SystemExit as ended:  # argparse
            code = ended.code
    return subprocess.CompletedProcess(arguments, code, out.getvalue(),
                                       error.getvalue())


def run_outside(*arguments):
    """The same in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "moiety", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False)
