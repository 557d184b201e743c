# SPDX-License-Identifier: Apache-2.0
"""How far the reading of a file is."""

import os
import time

from binade._terminal_line import TerminalLine, bar

_SECONDS = 0.1  # between two looks


class Reading:
    """A context; what it gives is called with the bytes that were read and
    those of the file, and is None where nobody would see it."""

    def __init__(self, path, stream=None):
        self._name = os.path.basename(path)
        self._line = TerminalLine(stream)
        self._next = time.monotonic() + _SECONDS

    def __enter__(self):
        return self._watch if self._line.is_shown else None

    def __exit__(self, *_):
        self._line.clear()

    def _watch(self, done, size):
        if time.monotonic() < self._next or not size:
            return
        self._next = time.monotonic() + _SECONDS
        done = min(done, size)
        self._line.show(bar(done, size), f"{100 * done // size} %",
                        self._line.elapsed(), self._name)
