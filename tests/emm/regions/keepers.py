# SPDX-License-Identifier: Apache-2.0
"""A keeper of regions for tests of Python, with the stand-in's memory."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile

import moiety
import moiety.regions
from support import MIB

LIMIT = 64 * MIB


@contextlib.contextmanager
def served(*more):
    """The path of a keeper that answers; by the command, as users start it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "keeper")
        process = subprocess.Popen(
            [sys.executable, "-m", "moiety", "serve", f"--socket={path}",
             f"--limit={LIMIT}", "--accept-memfd", *more])
        try:
            # Its socket is there before it listens, or not yet.
            while process.poll() is None:
                with contextlib.suppress(moiety.PeerGoneError):
                    moiety.regions.connect(path).close()
                    break
            yield path
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
