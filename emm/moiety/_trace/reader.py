# SPDX-License-Identifier: Apache-2.0
"""Reads traces, an operation at a time: memory is for what is live and for
names, not for the file."""

import contextlib

from moiety._trace.files import Lines, opened
from moiety._trace.format import (
    FIRST_LINE, INFO_COUNT_MAX, KINDS, NAME_COUNT_MAX, SIGNATURE, TIME_NS_MAX,
    Live, Operation, TraceError, checked_size, parse_definition, parse_end,
    parse_info, parse_operation, parse_stream, shown)

_OPERATION_BYTES = frozenset(map(ord, KINDS))


class Reader:
    """An iterator over the Operations of a trace. Each is read once.

    The attributes describe the part that was read. `info` is a dictionary of texts, and
    `time_ns` the time of the last operation. `threads`, `streams` and `tags` are lists.
    `live` has the allocations that are not freed. Without `is_checked` it is None, and
    not checked.

    Raises TraceError, with the line, for a file that docs/dev/trace-format.md refuses."""

    def __init__(self, file, is_checked=True):
        self._lines = Lines(file)
        self.info = {}
        self.threads = []
        self.streams = []
        self.tags = []
        self.time_ns = 0
        self.operation_count = 0
        self.live = Live() if is_checked else None
        self._expect_first_line()

    @property
    def line(self):
        """The number of the line that was read last."""
        return self._lines.number

    def _expect_first_line(self):
        line = next(self._lines, None)
        if line is None:
            self._lines.fail("the file is empty")
        if line != FIRST_LINE:
            if line.startswith(SIGNATURE):
                self._lines.fail(f"{shown(line)}: this reader knows version 1")
            self._lines.fail(f"{shown(line)} begins no trace")

    def __iter__(self):
        for line in self._lines:
            try:
                if line[0] in _OPERATION_BYTES:
                    yield self._operation(line)
                elif line[0] == ord("E"):
                    return self._end(line)
                else:
                    self._define(line)
            except TraceError as error:
                # Not what a consumer throws into this generator.
                error.line = self._lines.number
                raise
        self._lines.fail("there is no E line: the file is cut off")

    def _operation(self, line):
        kind, (delta_ns, thread, *numbers) = parse_operation(line)
        self.time_ns += delta_ns
        if self.time_ns > TIME_NS_MAX:
            raise TraceError("the time is above 2^63 ns")
        fields = dict(zip(kind.fields, numbers))
        if "size_bytes" in fields:
            checked_size(fields["size_bytes"], kind.name)
        if "stream" in fields:
            fields["stream"] = self._named("stream", fields["stream"])
        if fields.get("tag") is not None:
            fields["tag"] = self._named("tag", fields["tag"])
        made = Operation(kind.name, self.time_ns,
                         self._named("thread", thread), **fields)
        if self.live:
            self.live.apply(made)
        self.operation_count += 1
        return made

    def _named(self, what, index):
        names = getattr(self, what + "s")
        if index >= len(names):
            raise TraceError(f"the {what} {index} was not defined before")
        return names[index]

    def _define(self, line):
        if line.startswith(b"I"):
            key, text = parse_info(line)
            if len(self.info) == INFO_COUNT_MAX:
                raise TraceError(f"more than {INFO_COUNT_MAX} I lines")
            if key in self.info:
                raise TraceError(f"a second I line for {key}")
            self.info[key] = text
            return
        names = {b"T": self.threads, b"S": self.streams,
                 b"G": self.tags}.get(line[:1])
        if names is None:
            raise TraceError(f"{shown(line)} is no line of a trace")
        index, name = parse_definition(line)
        if index != len(names):
            raise TraceError(f"{index} is defined where {len(names)} is next")
        if index == NAME_COUNT_MAX:
            raise TraceError(f"more than {NAME_COUNT_MAX} {chr(line[0])} lines")
        names.append(parse_stream(name) if line[0] == ord("S") else name)

    def _end(self, line):
        count = parse_end(line)
        if count != self.operation_count:
            raise TraceError(f"{self.operation_count} operations were read, "
                             f"the end says {count}")
        if next(self._lines, None) is not None:
            raise TraceError("lines follow the end")


@contextlib.contextmanager
def read(path, watch=None):
    """Returns a with-block over a Reader of the file, compressed or not.

    watch  a function that is called at times with the bytes read and the bytes of the
           file."""
    with opened(path, watch) as file:
        yield Reader(file)
