# SPDX-License-Identifier: Apache-2.0
"""The rows of a replay, as they come."""

import json
import sys

# As large as the trace; only pictures need them.
_OF_PICTURES = ("timeline", "map")


class Results:
    """.rows: dictionaries. Each row is written at once where `options` say, so
    that an end before the end loses none."""

    def __init__(self, stack, options):
        """What is opened here, `stack` closes."""
        self.rows = []
        self._files = []
        self._has_pictures = options.html is not None
        self._named = {name for names in options.subject
                       for name in names.split(",")}
        if options.rows is not None:
            self._files.append(stack.enter_context(open(options.rows, "wb")))
        if options.json:
            self._files.append(sys.stdout.buffer)

    def take(self, line):
        for file in self._files:
            file.write(line + b"\n")
            file.flush()
        row = json.loads(line)
        if not self._has_pictures:
            for name in _OF_PICTURES:
                row.pop(name, None)
        self.rows.append(row)

    @property
    def has_run(self):
        """Whether any subject has."""
        return any("refused" not in row for row in self.rows)

    @property
    def is_whole(self):
        """Whether all subjects have that were asked for by name."""
        return not any("refused" in row and row["subject"] in self._named
                       for row in self.rows)
