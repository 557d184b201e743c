# SPDX-License-Identifier: Apache-2.0
"""Writes traces. What a reader would refuse is refused here."""

import contextlib
import gzip
import io
import operator
import os
import re

from moiety._trace.format import (
    ABSENT, FIRST_LINE, INFO_COUNT_MAX, KINDS, LETTERS, NAME_COUNT_MAX,
    NUMBER_MAX, TIME_NS_MAX, Live, Operation, TraceError, checked_size,
    checked_text, stream_text)

_STDOUT = 1
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
        """The text of what cannot be a key is asked for first, and refused."""
        try:
            found = self._indices.get(name)
        except TypeError:
            found = None
        return self._define(name) if found is None else found

    def _define(self, name):
        text = self._text_of(name)
        index = len(self._indices)
        if index == NAME_COUNT_MAX:
            raise TraceError(f"more than {NAME_COUNT_MAX} {self._letter} lines")
        self._file.write(f"{self._letter} {index} {text}\n".encode())
        self._indices[name] = index
        return index


def _whole(value, what):
    """As an int: NumPy's are taken, and a bool is a mistake."""
    if type(value) is int:
        return value
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TraceError(f"{what} is {value!r}, not a whole number")


class Writer:
    """A writer of a trace into a binary file, which stays open.

    Raises TraceError for an operation that cannot be written. Nothing of its line is
    written then."""

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
        """Writes a text about the trace, at any time before its end."""
        if (not isinstance(key, str) or not _KEY.fullmatch(key)
                or key in self._keys):
            raise TraceError(f"{key!r} is no key, or was there before")
        if len(self._keys) == INFO_COUNT_MAX:
            raise TraceError(f"more than {INFO_COUNT_MAX} I lines")
        text = checked_text(str(value))
        self._keys.add(key)
        self._file.write(f"I {key} {text}\n".encode())

    def write(self, operation):
        """Writes an Operation. Its time is not before that of the last one."""
        kind = operation.kind
        if not isinstance(kind, str) or kind not in LETTERS:
            raise TraceError(f"{kind!r} is no kind of operation")
        for field in ABSENT[kind]:
            if getattr(operation, field) is not None:
                raise TraceError(f"{kind} has no {field}")
        made = Operation(
            kind, _whole(operation.time_ns, "the time"), operation.thread,
            **{field: self._checked(operation, field)
               for field in KINDS[LETTERS[kind]].fields})
        if not self._time_ns <= made.time_ns <= TIME_NS_MAX:
            raise TraceError(f"the time {made.time_ns} ns is before "
                             f"{self._time_ns}, or above 2^63")
        numbers = self._numbers(made)
        self.live.apply(made)
        self._time_ns = made.time_ns
        self.operation_count += 1
        self._file.write(
            f"{LETTERS[kind]} {' '.join(map(str, numbers))}\n".encode())

    def _checked(self, operation, field):
        value = getattr(operation, field)
        if field == "tag":
            return value
        value = _whole(value, f"{operation.kind}: {field}")
        if field == "size_bytes":
            return checked_size(value, operation.kind)
        if not 0 <= value <= NUMBER_MAX:
            raise TraceError(f"the {field} {value} is no number below 2^64")
        return value

    def _numbers(self, made):
        """What the operation's line has; defines the names that are new."""
        numbers = [made.time_ns - self._time_ns,
                   self._threads.index(made.thread)]
        for field in KINDS[LETTERS[made.kind]].fields:
            value = getattr(made, field)
            if field == "stream":
                value = self._streams.index(value)
            elif field == "tag":
                if value is None:
                    continue
                value = self._tags.index(value)
            numbers.append(value)
        return numbers

    def end(self):
        """Ends the trace. Call it once, after everything else."""
        self._file.write(f"E {self.operation_count}\n".encode())


class Target(io.FileIO):
    """Says in its errors which file could not be written."""

    def __init__(self, path, name=None, mode="w"):
        self._name = name or path
        try:
            super().__init__(path, mode, closefd=path != _STDOUT)
        except OSError as error:
            error.filename = self._name
            raise

    def write(self, data):
        try:
            return super().write(data)
        except OSError as error:
            error.filename = self._name
            raise


def is_stdout(path):
    """Whether the path, or 1, is standard output. Where that is a file it is
    not replaced: the shell has opened it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(_STDOUT))
    except OSError:
        return False


@contextlib.contextmanager
def replaced(path):
    """A binary file in whose place the path's is at the end, and nothing after
    an exception. Standard output (1), a device or a pipe is written to as it
    is."""
    if is_stdout(path):
        with io.BufferedWriter(Target(_STDOUT, "standard output")) as file:
            yield file
        return
    if os.path.exists(path) and not os.path.isfile(path):
        with io.BufferedWriter(Target(path)) as file:
            yield file
        return
    target = os.path.realpath(path)
    part = f"{target}.{os.getpid()}.part"
    try:
        with io.BufferedWriter(Target(part, path, "x")) as file:
            yield file
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


@contextlib.contextmanager
def create(path):
    """Returns a with-block over a Writer. The file is compressed if the path ends with .gz.
    It exists only if the with-block ends without an exception."""
    with replaced(path) as file, contextlib.ExitStack() as stack:
        if path != _STDOUT and os.fspath(path).endswith(".gz"):
            # Neither a name nor a time in it: the same input, the same bytes.
            file = stack.enter_context(
                gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        writer = Writer(file)
        yield writer
        writer.end()
