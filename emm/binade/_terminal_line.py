# SPDX-License-Identifier: Apache-2.0
"""One line of a terminal that is written over, to say how far something is;
nothing at all where standard error is no terminal."""

import os
import sys
import time

_BAR_LETTERS = 20
_CLEAR = "\r\x1b[K"


class TerminalLine:
    def __init__(self, stream=None):
        self._stream = stream or sys.stderr
        self._begin = time.monotonic()
        self.is_shown = self._stream.isatty()

    def show(self, *words):
        """Instead of what was there, as much as there is room for."""
        if self.is_shown:
            columns = os.get_terminal_size(self._stream.fileno()).columns
            self._write(_CLEAR + " ".join(words)[:max(columns - 1, 0) or None])

    def clear(self):
        """Before something else is written, and at the end."""
        if self.is_shown:
            self._write(_CLEAR)

    def elapsed(self):
        seconds = int(time.monotonic() - self._begin)
        return f"{seconds // 60}:{seconds % 60:02}"

    def _write(self, text):
        self._stream.write(text)
        self._stream.flush()


def bar(done, of):
    filled = _BAR_LETTERS * done // of
    return f"[{'#' * filled:.<{_BAR_LETTERS}}]"
