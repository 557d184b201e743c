# SPDX-License-Identifier: Apache-2.0
"""The log of RMM's logging adaptor, as events."""

import re

from moiety._trace.clean import JITTER_NS, Event
from moiety._trace.files import Lines
from moiety._trace.format import NUMBER_MAX, TraceError, checked_size, shown

HEADER = b"Thread,Time,Action,Pointer,Size,Stream"

_KINDS = {b"allocate": "alloc", b"free": "free", b"allocate failure": "oom"}
_TIME = re.compile(rb"([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)\.(\d{6})")
_DAY_NS = 86_400 * 10**9


def _field(name, part, pattern):
    if not re.fullmatch(pattern, part):
        raise TraceError(f"{name} is {shown(part)}")
    return part


def _address(part):
    _field("Pointer", part, rb"\(nil\)|0x[0-9a-fA-F]{1,16}|0")
    return 0 if part == b"(nil)" else int(part, 16)


def _stream(part):
    return int(_field("Stream", part, rb"0x[0-9a-fA-F]{1,16}|0"), 16)


def _size(part, kind):
    _field("Size", part, rb"-?\d{1,20}")
    return checked_size(int(part), kind)


class _Clock:
    """The log has times of day."""

    def __init__(self):
        self._midnight_ns = 0
        self._last_ns = 0

    def read(self, part):
        match = _TIME.fullmatch(part)
        if not match:
            raise TraceError(f"Time is {shown(part)}")
        hour, minute, second, micro = map(int, match.groups())
        of_day_ns = ((hour * 60 + minute) * 60 + second) * 10**9 + micro * 1000
        time_ns = self._midnight_ns + of_day_ns
        if time_ns < self._last_ns - _DAY_NS // 2:
            self._midnight_ns += _DAY_NS
            time_ns += _DAY_NS
        elif self._midnight_ns and (
                time_ns > self._last_ns + _DAY_NS - JITTER_NS):
            time_ns -= _DAY_NS  # of the day before, logged late
        self._last_ns = time_ns
        return time_ns


def _event(line, clock):
    parts = line.rstrip(b"\r\n").split(b",")
    if len(parts) != 6:
        raise TraceError(f"{shown(line)} has {len(parts)} fields, not 6")
    thread, time, action, pointer, size, stream = parts
    if action not in _KINDS:
        raise TraceError(f"Action is {shown(action)}")
    kind = _KINDS[action]
    if int(_field("Thread", thread, rb"\d{1,20}")) > NUMBER_MAX:
        raise TraceError(f"Thread is {shown(thread)}")
    address = _address(pointer)
    return Event(kind, clock.read(time), thread.decode(),
                 None if kind == "oom" else address, _size(size, kind),
                 _stream(stream))


def convert(file, cleaner, _writer, _options):
    """Puts what the file has into the cleaner; TraceError with the line."""
    lines = Lines(file)
    clock = _Clock()
    header = next(lines, None)
    if header is None:
        lines.fail("the file is empty")
    if header.rstrip(b"\r\n") != HEADER:
        lines.fail(f"{shown(header)} is not {HEADER.decode()}")
    with lines.numbered():
        for line in lines:
            cleaner.put(_event(line, clock))
