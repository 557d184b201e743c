# SPDX-License-Identifier: Apache-2.0
"""How far a replay is: one line of a terminal, written over; nothing at all
where standard error is no terminal."""

import os
import re
import sys
import time

_BAR_LETTERS = 20
_CLEAR = "\r\x1b[K"
_STEP = re.compile(r"replay: (\d+) of (\d+): (.*) on (\S+)")


class Progress:
    """`run_count` is how many times the program is started."""

    def __init__(self, run_count, stream=None):
        self._stream = stream or sys.stderr
        self.is_shown = self._stream.isatty()
        self._run_count = run_count
        self._begin = time.monotonic()
        self._done = 0
        self._all = 0
        self._what = ""

    def take(self, run, line):
        """Whether the line only says how far the program is: in its `run`, from
        0 on, it counts from 1 on."""
        step = _STEP.fullmatch(line) if self.is_shown else None
        if step:
            number, count = int(step[1]), int(step[2])
            self._done = run * count + number - 1
            self._all = self._run_count * count
            self.say(f"{os.path.basename(step[3])} on {step[4]}")
        return bool(step)

    def say(self, what):
        self._what = what
        self.tick()

    def tick(self):
        if not self.is_shown or not self._what:
            return
        line = f"{self._elapsed()} {self._what}"
        if self._all:
            line = f"{self._bar()} {self._done + 1} of {self._all} {line}"
        columns = os.get_terminal_size(self._stream.fileno()).columns
        self._write(_CLEAR + line[:max(columns - 1, 0) or None])

    def clear(self):
        """Before something else is written."""
        if self.is_shown:
            self._write(_CLEAR)

    def close(self):
        self.clear()
        self._what = ""

    def _write(self, text):
        self._stream.write(text)
        self._stream.flush()

    def _elapsed(self):
        seconds = int(time.monotonic() - self._begin)
        return f"{seconds // 60}:{seconds % 60:02}"

    def _bar(self):
        filled = _BAR_LETTERS * self._done // self._all
        return f"[{'#' * filled:.<{_BAR_LETTERS}}]"
