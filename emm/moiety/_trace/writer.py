# SPDX-License-Identifier: Apache-2.0
"""Writes traces. What a reader would refuse is refused here."""

import contextlib
import gzip
import os
import re

from moiety._trace.format import (
    ABSENT, FIRST_LINE, INFO_COUNT_MAX, KINDS, LETTERS, NAME_COUNT_MAX,
    NUMBER_MAX, TIME_NS_MAX, Live, TraceError, checked_size, checked_text,
    stream_text)

_KEY = re.compile(r"[a-z][a-z0-9_]{0,63}")


class _Names:
    """The indices of threads, of streams, or of tags; a name that is new is
    defined by a line of its own."""

    def __init__(self, file, letter, text_of):
        self._file = file
        self._letter = letter
        self._text_of = text_of
        self._indices = {}

    def index(self, name):
        found = self._indices.get(name)
        if found is None:
            found = self._define(name)
        return found

    def _define(self, name):
        text = self._text_of(name)
        index = len(self._indices)
        if index == NAME_COUNT_MAX:
            raise TraceError(f"more than {NAME_COUNT_MAX} {self._letter} lines")
        self._file.write(f"{self._letter} {index} {text}\n".encode())
        self._indices[name] = index
        return index


class Writer:
    """Of a binary file, which stays the caller's. TraceError for what cannot
    be written; nothing of that operation's own line is then."""

    def __init__(self, file):
        self._file = file
        self._keys = set()
        self._threads = _Names(file, "T", checked_text)
        self._streams = _Names(file, "S", stream_text)
        self._tags = _Names(file, "G", checked_text)
        self._time_ns = 0
        self.operation_count = 0
        self.live = Live()
        file.write(FIRST_LINE)

    def info(self, key, value):
        """Tells something about the trace, at any time before its end."""
        if not _KEY.fullmatch(key) or key in self._keys:
            raise TraceError(f"{key!r} is no key, or was there before")
        if len(self._keys) == INFO_COUNT_MAX:
            raise TraceError(f"more than {INFO_COUNT_MAX} I lines")
        text = checked_text(str(value))
        self._keys.add(key)
        self._file.write(f"I {key} {text}\n".encode())

    def write(self, operation):
        """The times of operations never decrease."""
        if operation.kind not in LETTERS:
            raise TraceError(f"{operation.kind!r} is no kind of operation")
        letter = LETTERS[operation.kind]
        for field in ABSENT[operation.kind]:
            if getattr(operation, field) is not None:
                raise TraceError(f"{operation.kind} has no {field}")
        if not self._time_ns <= operation.time_ns <= TIME_NS_MAX:
            raise TraceError(f"the time {operation.time_ns} ns is before "
                             f"{self._time_ns}, or above 2^63")
        numbers = [operation.time_ns - self._time_ns,
                   self._threads.index(operation.thread)]
        numbers += [number for field in KINDS[letter].fields
                    if (number := self._number(operation, field)) is not None]
        self.live.apply(operation)
        self._time_ns = operation.time_ns
        self.operation_count += 1
        self._file.write(f"{letter} {' '.join(map(str, numbers))}\n".encode())

    def _number(self, operation, field):
        value = getattr(operation, field)
        if field == "stream":
            return self._streams.index(value)
        if field == "tag":
            return None if value is None else self._tags.index(value)
        if not isinstance(value, int):
            raise TraceError(f"{operation.kind}: {field} is {value!r}")
        if field == "size_bytes":
            return checked_size(value, operation.kind)
        if not 0 <= value <= NUMBER_MAX:
            raise TraceError(f"the id {value} is no number below 2^64")
        return value

    def end(self):
        """Once, after everything."""
        self._file.write(f"E {self.operation_count}\n".encode())


@contextlib.contextmanager
def _replaced(path):
    """A binary file in whose place the path's is at the end, and nothing after
    an exception. A device or a pipe is written to as it is."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            yield file
        return
    part = f"{path}.{os.getpid()}.part"
    file = open(part, "xb")
    try:
        with file:
            yield file
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


@contextlib.contextmanager
def create(path):
    """A context with a Writer; compressed if the path ends with .gz. The file
    is there only when the context ended without an exception."""
    with _replaced(path) as file, contextlib.ExitStack() as stack:
        if os.fspath(path).endswith(".gz"):
            # Neither a name nor a time in it: the same input, the same bytes.
            file = stack.enter_context(
                gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        writer = Writer(file)
        yield writer
        writer.end()
