# SPDX-License-Identifier: Apache-2.0
"""The log of RMM's logging adaptor, as events."""

import re

from moiety._trace.clean import JITTER_NS, Event
from moiety._trace.files import Lines
from moiety._trace.format import NUMBER_MAX, TraceError, checked_size, shown

_COLUMNS = (b"Thread", b"Time", b"Action", b"Pointer", b"Size", b"Stream")
# RMM's first logs had no thread.
_OPTIONAL = b"Thread"
_THREAD = "all"
# What a batch system prints before the program starts.
_LINES_BEFORE_MAX = 100

_KINDS = {b"allocate": "alloc", b"free": "free", b"allocate failure": "oom"}
# RMM up to 0.19 wrote a colon before the microseconds.
_TIME = re.compile(rb"([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)[.:](\d{6})")
_HOUR_NS = 3600 * 10**9
_DAY_NS = 24 * _HOUR_NS


def _plain(line):
    """Without the line's end and quotes: no field has a comma."""
    return line.rstrip(b"\r\n").replace(b'"', b"")


def _columns(line):
    """The places of a header's columns, and how many there are with those of
    others, as an index; None: the line is no header."""
    names = _plain(line.removeprefix(b"\xef\xbb\xbf")).split(b",")
    places = {name: i for i, name in enumerate(names) if name in _COLUMNS}
    if not places.keys() >= set(_COLUMNS) - {_OPTIONAL}:
        return None
    return [places.get(name) for name in _COLUMNS], len(names)


def begins(start):
    """Whether a file that begins so is a log."""
    for line in start.split(b"\n")[:_LINES_BEFORE_MAX + 1]:
        if b"\0" in line:
            break
        if _columns(line):
            return True
    return False


def _field(name, part, pattern):
    if not re.fullmatch(pattern, part):
        raise TraceError(f"{name} is {shown(part)}")
    return part


def _address(part):
    _field("Pointer", part, rb"\(nil\)|0x[0-9a-fA-F]{1,16}|0")
    return 0 if part == b"(nil)" else int(part, 16)


def _stream(part):
    _field("Stream", part, rb"\(nil\)|0x[0-9a-fA-F]{1,16}|0")
    return 0 if part == b"(nil)" else int(part, 16)


def _size(part, kind):
    _field("Size", part, rb"-?\d{1,20}")
    return checked_size(int(part), kind)


def _thread(part):
    if int(_field("Thread", part, rb"\d{1,20}")) > NUMBER_MAX:
        raise TraceError(f"Thread is {shown(part)}")
    return part.decode()


class _Clock:
    """The log has local times of day: they begin anew at midnight, and go back
    an hour in one night of the year. What was logged late by the other threads
    is of before that."""

    def __init__(self, counts):
        self._counts = counts
        self._offset_ns = 0
        self._last_ns = 0
        self._change_ns = None  # when the clock went back last
        self._change_by_ns = 0

    def read(self, part):
        match = _TIME.fullmatch(part)
        if not match:
            raise TraceError(f"Time is {shown(part)}")
        hour, minute, second, micro = map(int, match.groups())
        of_day_ns = ((hour * 60 + minute) * 60 + second) * 10**9 + micro * 1000
        time_ns = self._offset_ns + of_day_ns
        back_ns = self._last_ns - time_ns
        if back_ns > _DAY_NS // 2:
            time_ns += self._change(_DAY_NS)
        elif self._is_hour(hour, back_ns):
            time_ns += self._change(_HOUR_NS)
            self._counts["hours_back"] += 1
        elif self._is_late(time_ns):
            time_ns -= self._change_by_ns
        self._last_ns = time_ns
        return time_ns

    def _change(self, by_ns):
        self._change_ns = self._last_ns
        self._change_by_ns = by_ns
        self._offset_ns += by_ns
        return by_ns

    def _is_hour(self, hour, back_ns):
        """Summer time ends at night, and no log is silent for long."""
        return ((hour < 4 or hour == 23)
                and _HOUR_NS // 2 < back_ns <= _HOUR_NS + JITTER_NS)

    def _is_late(self, time_ns):
        return (self._change_by_ns
                and time_ns > self._last_ns + self._change_by_ns - JITTER_NS
                and (self._change_by_ns == _DAY_NS or
                     self._last_ns - self._change_ns < JITTER_NS))


def _event(text, columns, clock):
    places, count = columns
    parts = text.split(b",")
    if len(parts) != count:
        raise TraceError(f"{shown(text)} has {len(parts)} fields, not {count}")
    thread, time, action, pointer, size, stream = (
        None if place is None else parts[place] for place in places)
    if action not in _KINDS:
        raise TraceError(f"Action is {shown(action)}")
    kind = _KINDS[action]
    thread = _THREAD if thread is None else _thread(thread)
    address = _address(pointer)
    return Event(kind, clock.read(time), thread,
                 None if kind == "oom" else address, _size(size, kind),
                 _stream(stream))


def _rows(lines, nth, counts):
    """(columns, text of a line) of the one log in a file, or of the nth. A
    program that was killed can have cut the line before the next header."""
    header, columns, number, before = None, None, 0, []
    for line in lines:
        text = _plain(line)
        found = _columns(text) if b"Pointer" in text else None
        if found:
            if header and text != header and text.endswith(header):
                found = columns
                if number == (nth or 1):
                    counts["cut_lines"] += 1
            header, columns, number = text, found, number + 1
            if number == 2 and nth is None:
                lines.fail("a second log begins here: --nth=1 converts what is "
                           "before it, --nth=2 what follows")
            if number > (nth or 1):
                return
            if number == 1 and before:
                counts["skipped_lines"] = len(before)
        elif not header:
            if line.strip():
                before.append(line)
            if len(before) > _LINES_BEFORE_MAX:
                break
        elif number == (nth or 1) and line.strip():
            yield columns, text
    if not header:
        _refuse(lines, before)
    if nth and number < nth:
        lines.fail(f"the file ends here and has {number} logs: there is no "
                   f"--nth={nth}")
    if lines.cut.strip():
        counts["cut_lines"] += 1


def _refuse(lines, before):
    if before:
        raise TraceError(
            f"{shown(before[0])} is not {b','.join(_COLUMNS).decode()}, and "
            f"nor is a line that follows", line=1)
    lines.fail("the first line has no end: the file is cut off" if lines.cut
               else "the file is empty")


def convert(file, cleaner, _writer, options):
    """Puts what the file has into the cleaner; TraceError with the line."""
    lines = Lines(file, has_cut=True)
    clock = _Clock(cleaner.counts)
    with lines.numbered():
        for columns, text in _rows(lines, options.nth, cleaner.counts):
            cleaner.put(_event(text, columns, clock))
