# SPDX-License-Identifier: Apache-2.0
"""How far a replay is."""

import os
import re

from binade._terminal_line import TerminalLine, bar

_STEP = re.compile(r"replay: (\d+) of (\d+): (.*) on (\S+)")


class Progress:
    """`run_count` is how many times the program is started."""

    def __init__(self, run_count, stream=None):
        self._line = TerminalLine(stream)
        self._run_count = run_count
        self._done = 0
        self._all = 0
        self._what = ""

    @property
    def is_shown(self):
        return self._line.is_shown

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
        if not self._what:
            return
        words = [self._line.elapsed(), self._what]
        if self._all:
            words = [bar(self._done, self._all),
                     f"{self._done + 1} of {self._all}", *words]
        self._line.show(*words)

    def clear(self):
        """Before something else is written."""
        self._line.clear()

    def close(self):
        self.clear()
        self._what = ""
