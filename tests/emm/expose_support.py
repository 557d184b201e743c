# SPDX-License-Identifier: Apache-2.0
"""A process that exposes pools, and the command line that asks it."""

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager

from binade import observe


@contextmanager
def exposed():
    """This process serves at the path; not in pytest's folders, as a socket's
    path is short."""
    with tempfile.TemporaryDirectory(prefix="binade-") as folder:
        path = os.path.join(folder, "s")
        observe.start(path)
        try:
            yield path
        finally:
            observe.stop()


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "binade", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False)
