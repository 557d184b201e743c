# SPDX-License-Identifier: Apache-2.0
"""The language of traces, version 1: its lines, and which operation may follow
which. docs/dev/trace-format.md has the grammar, and these are its numbers."""

import collections
import re


class TraceError(ValueError):
    """A trace, log or snapshot is not as the format demands.

    `line` is the number of the line, from 1 on, or None. `offset` is the number of bytes
    before the place in a binary file, or None."""

    def __init__(self, message, *, line=None, offset=None):
        super().__init__(message)
        self.line = line
        self.offset = offset

    def __str__(self):
        message = super().__str__()
        if self.line is not None:
            return f"line {self.line}: {message}"
        if self.offset is not None:
            return f"offset {self.offset}: {message}"
        return message


SIGNATURE = b"moiety-trace "
FIRST_LINE = b"moiety-trace 1\n"

LINE_BYTES_MAX = 1024
TEXT_BYTES_MAX = 200
NUMBER_MAX = (1 << 64) - 1
SIZE_BYTES_MAX = 1 << 48
TIME_NS_MAX = (1 << 63) - 1
NAME_COUNT_MAX = 1 << 16  # of threads, of streams, of tags
INFO_COUNT_MAX = 1 << 10
LIVE_COUNT_MAX = 1 << 20
LIVE_BYTES_MAX = 1 << 60

# `thread` is a name and `stream` a CUstream as a number (the lines have
# indices instead); time_ns counts from the trace's start. What a kind has not
# is None, and so is a tag where there is none.
Operation = collections.namedtuple(
    "Operation", "kind time_ns thread id size_bytes stream tag",
    defaults=(None, None, None, None))
Operation.__doc__ = """One operation of a trace.

`kind` is "alloc", "free", "free_sized", "free_after" or "free_requested". `id` names
the allocation, and `time_ns` is the time since the begin. `size_bytes`, `stream` and
`tag` are None for kinds without them."""

# By its letter what an operation is called and the fields that follow the
# thread, in their order.
Kind = collections.namedtuple("Kind", "name fields")
KINDS = {
    "a": Kind("alloc", ("id", "size_bytes", "stream", "tag")),
    "f": Kind("free", ("id", "stream")),
    "s": Kind("free_sized", ("id", "stream")),
    "w": Kind("free_after", ("id",)),
    "q": Kind("free_requested", ("id", "stream")),
    "u": Kind("record_use", ("id", "stream")),
    "x": Kind("export", ("id",)),
    "r": Kind("retire", ("stream",)),
    "g": Kind("grow", ("size_bytes", "stream")),
    "t": Kind("trim", ("size_bytes", "stream")),
    "o": Kind("oom", ("size_bytes", "stream", "tag")),
}
LETTERS = {kind.name: letter for letter, kind in KINDS.items()}
# What operations of a kind do not have.
ABSENT = {kind.name: [field for field in Operation._fields[3:]
                      if field not in kind.fields] for kind in KINDS.values()}
# What ends an allocation.
FREES = frozenset(("free", "free_sized", "free_after"))

# Words for streams that are not a program's own.
STREAM_WORDS = {0: "null", 1: "legacy", 2: "per_thread",
                NUMBER_MAX - 1: "done", NUMBER_MAX: "any"}
_WORD_STREAMS = {word: stream for stream, word in STREAM_WORDS.items()}

_NUMBER = rb"(0|[1-9][0-9]{0,19})"
_OPERATIONS = {
    letter: re.compile(
        letter.encode() + b" " + _NUMBER + b" " + _NUMBER + b"".join(
            b"(?: " + _NUMBER + b")?" if field == "tag" else b" " + _NUMBER
            for field in kind.fields) + rb"\n")
    for letter, kind in KINDS.items()}
_DEFINITION = re.compile(rb"[TSG] " + _NUMBER + rb" ([^\n]+)\n")
_INFO = re.compile(rb"I ([a-z][a-z0-9_]{0,63}) ([^\n]+)\n")
_END = re.compile(rb"E " + _NUMBER + rb"\n")
# The same for every version of Unicode, as isprintable() is not.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_STREAM = re.compile(r"0x[1-9a-f][0-9a-f]{0,15}")


def shown(line):
    """What is left of a line in a message."""
    return repr(line[:60])[1:] + ("..." if len(line) > 60 else "")


def _form(letter):
    words = {"id": "ID", "size_bytes": "SIZE", "stream": "STREAM",
             "tag": "[TAG]"}
    return " ".join([letter, "NS", "THREAD",
                     *(words[field] for field in KINDS[letter].fields)])


def parse_operation(line):
    """(Kind, (ns since the operation before, thread, fields...)); a tag that
    is not there is None."""
    letter = chr(line[0])
    match = _OPERATIONS[letter].fullmatch(line)
    if not match:
        raise TraceError(f"{shown(line)} is not of the form {_form(letter)}")
    numbers = [None if part is None else int(part) for part in match.groups()]
    if max(number or 0 for number in numbers) > NUMBER_MAX:
        raise TraceError(f"{shown(line)} has a number that is not below "
                         f"2^64")
    return KINDS[letter], numbers


def parse_text(part):
    """Of the bytes that a line ends with."""
    try:
        return checked_text(part.decode())
    except UnicodeDecodeError:
        raise TraceError(f"{shown(part)} is not UTF-8") from None


def parse_definition(line):
    """(index, text) of a thread, stream or tag."""
    match = _DEFINITION.fullmatch(line)
    if not match:
        raise TraceError(f"{shown(line)} is not of the form "
                         f"{chr(line[0])} INDEX NAME")
    return int(match[1]), parse_text(match[2])


def parse_info(line):
    match = _INFO.fullmatch(line)
    if not match:
        raise TraceError(f"{shown(line)} is not of the form I KEY TEXT")
    return match[1].decode(), parse_text(match[2])


def parse_end(line):
    match = _END.fullmatch(line)
    if not match:
        raise TraceError(f"{shown(line)} is not of the form E OPERATIONS")
    return int(match[1])


def parse_stream(text):
    """A CUstream as a number, of its word or hexadecimal digits."""
    if text in _WORD_STREAMS:
        return _WORD_STREAMS[text]
    if not _STREAM.fullmatch(text) or int(text, 16) in STREAM_WORDS:
        raise TraceError(f"the stream {text[:60]!r} is neither 0x and "
                         f"hexadecimal digits nor a word for one")
    return int(text, 16)


def stream_text(stream):
    if not isinstance(stream, int) or not 0 <= stream <= NUMBER_MAX:
        raise TraceError(f"the stream {stream!r} is no number below 2^64")
    return STREAM_WORDS.get(stream, f"{stream:#x}")


def checked_text(text):
    """The text, if it can be the end of a line; TraceError otherwise."""
    if not isinstance(text, str):
        raise TraceError(f"{text!r} is no text")
    if not text or CONTROL.search(text) or text != text.strip(" "):
        raise TraceError(f"{text[:60]!r} is empty, begins or ends with a "
                         f"space, or has control characters")
    if len(text.encode()) > TEXT_BYTES_MAX:
        raise TraceError(f"{text[:60]!r}... has more than {TEXT_BYTES_MAX} "
                         f"bytes")
    return text


def checked_size(size_bytes, kind):
    """Of a failed allocation any size: absurd ones are why some fail."""
    limit = NUMBER_MAX if kind == "oom" else SIZE_BYTES_MAX
    if size_bytes < 0:
        raise TraceError(f"the size is negative: {size_bytes}")
    if size_bytes > limit:
        raise TraceError(f"the size, {size_bytes} bytes, is above "
                         f"2^{limit.bit_length() - (kind != 'oom')}")
    return size_bytes


class Live:
    """Counts are of now; peaks of the moments at which each was highest."""

    def __init__(self):
        self._sizes = {}
        self._requested = set()  # ids of which a free was requested
        self.live_bytes = 0
        self.peak_bytes = 0
        self.peak_count = 0

    @property
    def live_count(self):
        return len(self._sizes)

    def apply(self, operation):
        """TraceError for an operation that cannot be at this place."""
        if operation.kind == "alloc":
            self._alloc(operation.id, operation.size_bytes)
        elif operation.id is not None:
            self._use(operation.kind, operation.id)

    def _alloc(self, block, size_bytes):
        if block in self._sizes:
            raise TraceError(f"{block} is allocated, but it was not freed")
        if len(self._sizes) == LIVE_COUNT_MAX:
            raise TraceError(f"more than {LIVE_COUNT_MAX} allocations are live")
        if self.live_bytes + size_bytes > LIVE_BYTES_MAX:
            raise TraceError(f"more than {LIVE_BYTES_MAX} bytes are live")
        self._sizes[block] = size_bytes
        self.live_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        self.peak_count = max(self.peak_count, len(self._sizes))

    def _use(self, kind, block):
        if block not in self._sizes:
            raise TraceError(f"{kind} of {block}, which is not allocated")
        if kind in FREES:
            self.live_bytes -= self._sizes.pop(block)
            self._requested.discard(block)
        elif block in self._requested:
            raise TraceError(f"{kind} of {block}, of which a free was "
                             f"requested before")
        elif kind == "free_requested":
            self._requested.add(block)
