# SPDX-License-Identifier: Apache-2.0
"""The snapshots of PyTorch's allocator (torch.cuda.memory._dump_snapshot), as
events of one device. Entries are packed as they are read: a snapshot may have
many millions."""

import itertools
import math
import re
import struct

from moiety._trace.clean import Event
from moiety._trace.format import (
    CONTROL, NUMBER_MAX, TEXT_BYTES_MAX, TraceError, checked_size)
from moiety._trace.plain_pickle import SKIPPED, Lists, Sink, load

# The entries have no thread.
THREAD = "all"
# A recording with more than this is of a program that makes tags of
# numbers.
_TAG_COUNT_MAX = 1 << 12

_KINDS = {"alloc": "alloc", "free_requested": "free_requested",
          "free_completed": "free", "segment_alloc": "grow",
          "segment_map": "grow", "segment_free": "trim",
          "segment_unmap": "trim", "oom": "oom"}
_KIND_NAMES = tuple(dict.fromkeys(_KINDS.values()))
_WITH_ADDRESS = frozenset(("alloc", "free_requested", "free"))

# As pickles of the protocols from 2 on begin, and of 1 and 0.
_BEGIN = re.compile(rb"\x80|[\]}]q|\([dl]p|ccollections\nOrderedDict\n")


def begins(start):
    """Whether a file that begins so is a pickle."""
    return _BEGIN.match(start) is not None


def _called(kind):
    """The name of a type for those who wrote the pickle."""
    for known, name in ((dict, "dict"), ((list, Sink), "list"),
                        (type(SKIPPED), "set or an object")):
        if issubclass(kind, known):
            return name
    return kind.__name__


def _member(about, key, kind, where):
    """about[key], of this type; a bool is no int."""
    value = about.get(key)
    if type(value) is not kind:
        what = "missing" if key not in about else f"a {_called(type(value))}"
        raise TraceError(f"{where}: {key!r} is {what}, not a {_called(kind)}")
    return value


def _number(about, key, where):
    value = _member(about, key, int, where)
    if not 0 <= value <= NUMBER_MAX:
        raise TraceError(f"{where}: {key!r} is {value}")
    return value


class _Tags:
    """The entries' texts, each once and by a number; 0 is none."""

    def __init__(self):
        self._numbers = {}
        self.texts = [None]

    def number_of(self, entry):
        """Of its user_metadata, where that is a text."""
        text = entry.get("user_metadata")
        if type(text) is not str:
            return 0
        # Cut first: a snapshot can name one long text at every entry.
        text = CONTROL.sub(" ", text[:TEXT_BYTES_MAX])
        text = text.encode()[:TEXT_BYTES_MAX]
        text = text.decode(errors="ignore").strip(" ")
        number = self._numbers.get(text, 0)
        if not number and text and len(self._numbers) < _TAG_COUNT_MAX:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


def _time_us(entry, where):
    """Some that make snapshots have fractions."""
    time_us = entry.get("time_us", 0)  # old snapshots have no times
    if type(time_us) is float and math.isfinite(time_us):
        time_us = round(time_us)
        entry = {"time_us": time_us}
    return _number(entry, "time_us", where) if "time_us" in entry else 0


class _Packed(Sink):
    """What of each value is wanted, as bytes. What is wrong is told when it is
    asked for: another list may be meant."""

    def __init__(self, what, form):
        self._what = what
        self._form = struct.Struct(form)
        self._bytes = bytearray()
        self.count = 0
        self._error = None

    def take(self, value):
        size = len(self._bytes)
        if not self._error:
            try:
                where = f"{self._what} {self.count}"
                if not isinstance(value, dict):
                    raise TraceError(f"{where} is a {_called(type(value))}, "
                                     f"not a dict")
                self._pack(value, where)
            except TraceError as error:
                self._error = str(error)
        self.count += 1
        return len(self._bytes) - size

    def _pack(self, value, where):
        raise NotImplementedError

    def _add(self, *numbers):
        self._bytes += self._form.pack(*numbers)

    def unpacked(self, outer=""):
        if self._error:
            raise TraceError(outer + self._error)
        return self._form.iter_unpack(self._bytes)


class _Trace(_Packed):
    """A device's entries."""

    def __init__(self):
        super().__init__("entry", "<IBHQQQQ")
        self._tags = _Tags()
        self.skipped_count = 0

    def _pack(self, value, where):
        kind = _KINDS.get(_member(value, "action", str, where))
        if kind is None:
            self.skipped_count += 1
            return
        size_bytes = _member(value, "size", int, where)
        try:
            checked_size(size_bytes, kind)
        except TraceError as error:
            raise TraceError(f"{where}: {error}") from None
        self._add(
            self.count, _KIND_NAMES.index(kind),
            self._tags.number_of(value) if kind in ("alloc", "oom") else 0,
            _time_us(value, where),
            _number(value, "addr", where) if kind in _WITH_ADDRESS else 0,
            size_bytes, _number(value, "stream", where))

    def events(self):
        """(where, Event) of each entry that is about memory."""
        for index, kind, tag, time_us, address, size_bytes, stream in (
                self.unpacked()):
            kind = _KIND_NAMES[kind]
            yield f"entry {index}", Event(
                kind, time_us * 1000, THREAD,
                address if kind in _WITH_ADDRESS else None, size_bytes, stream,
                self._tags.texts[tag])


class _Blocks(_Packed):
    """A segment's blocks that are not free."""

    def __init__(self):
        super().__init__("block", "<I?QQ")
        self._passed_bytes = 0

    def _pack(self, value, where):
        size_bytes = _number(value, "size", where)
        # Old snapshots have neither in a block.
        has_address = "address" in value
        address = (_number(value, "address", where) if has_address else
                   self._passed_bytes)
        asked = size_bytes
        if "requested_size" in value:
            asked = _member(value, "requested_size", int, where)
            try:
                checked_size(asked, "alloc")
            except TraceError as error:
                raise TraceError(f"{where}: {error}") from None
        if _member(value, "state", str, where) != "inactive":
            self._add(self.count, has_address, address, asked)
        self._passed_bytes += size_bytes

    def live(self, outer, segment):
        """(where, address, size) of each."""
        base = _number(segment, "address", outer) if self.count else 0
        for index, has_address, address, size_bytes in (
                self.unpacked(f"{outer}, ")):
            yield (f"{outer}, block {index}",
                   address if has_address else base + address, size_bytes)


# The keys whose lists and dictionaries are read, and what is made of the lists.
_WANTED = {"segments": list, "host_segments": list, "blocks": _Blocks,
           "device_traces": lambda: Lists(_Trace),
           "host_traces": lambda: Lists(_Trace)}


class _Chosen:
    """What is read of a snapshot: one device's entries, or none, and its
    segments."""

    def __init__(self, ordinal, trace, segments, is_host=False):
        self.ordinal = ordinal
        self.trace = trace
        self.is_host = is_host
        self._segments = segments

    def events(self):
        return self.trace.events() if self.trace else iter(())

    def segments(self):
        """(where, segment) of each of the device's."""
        for index, segment in enumerate(self._segments):
            where = f"segment {index}"
            if not isinstance(segment, dict):
                raise TraceError(f"{where} is a {_called(type(segment))}, not "
                                 f"a dict")
            if self.ordinal in (None, _number(segment, "device", where)):
                yield where, segment

    def live(self):
        """(where, segment, address, size) of each block that is not free."""
        seen = set()  # lists: a pickle can name one many times
        for outer, segment in self.segments():
            blocks = _member(segment, "blocks", _Blocks, outer)
            if blocks.count and id(blocks) in seen:
                raise TraceError(f"{outer}: its blocks are another segment's")
            seen.add(id(blocks))
            for where, address, size_bytes in blocks.live(outer, segment):
                yield where, segment, address, size_bytes


def _traces(snapshot, key):
    traces = _member(snapshot, key, Lists, "the snapshot")
    for ordinal, trace in enumerate(traces):
        if type(trace) is not _Trace:
            raise TraceError(f"{key}[{ordinal}] is a {_called(type(trace))}, "
                             f"not a list")
    return traces


def _one_of(ordinals, device, what):
    if device is None and len(ordinals) > 1:
        raise TraceError(f"the snapshot has {what} of {len(ordinals)} devices: "
                         f"name one with --device=N")
    return ordinals[0] if device is None else device


def _with_entries(snapshot, device):
    """The device that has entries, or its pinned memory; None if none has."""
    for key, segments, is_host in (
            ("device_traces", "segments", False),
            ("host_traces", "host_segments", True)):
        traces = _traces(snapshot, key) if key in snapshot else ()
        used = [ordinal for ordinal, trace in enumerate(traces) if trace.count]
        if used and device in (None, *used):
            ordinal = _one_of(used, device, "entries")
            return _Chosen(ordinal, traces[ordinal],
                           _member(snapshot, segments, list, "the snapshot"),
                           is_host)
    return None


def _without_entries(snapshot, device):
    """The device that has blocks."""
    segments = _member(snapshot, "segments", list, "the snapshot")
    used = sorted({_number(segment, "device", where) for where, segment, _, _
                   in _Chosen(None, None, segments).live()})
    if not used or device not in (None, *used):
        raise TraceError(
            "the snapshot has no entries and no live blocks"
            + (f" of device {device}" if device is not None else "")
            + ": torch.cuda.memory._record_memory_history() begins recording")
    return _Chosen(_one_of(used, device, "blocks"), None, segments)


def _merged(pairs):
    """Without the requests of frees that are completed by the next entry:
    that is, of all memory that no other stream used."""
    held = None
    for where, event in pairs:
        if held and not (event.kind == "free"
                         and event.address == held[1].address):
            yield held
        held = None
        if event.kind == "free_requested":
            held = where, event
        else:
            yield where, event
    if held:
        yield held


def _live_at_end(events):
    """Addresses."""
    live = set()
    for _, event in events:
        if event.kind == "alloc":
            live.add(event.address)
        elif event.kind == "free":
            live.discard(event.address)
    return live


def _live_before(chosen):
    """Allocations of blocks that are live at the end and of which the entries
    know nothing: they are older."""
    known = _live_at_end(chosen.events())
    start = next(chosen.events(), None)
    for where, segment, address, size_bytes in chosen.live():
        if address not in known:
            yield where, Event(
                "alloc", start[1].time_ns if start else 0, THREAD, address,
                size_bytes, _number(segment, "stream", where), "before")


def _reserved_before(chosen):
    """Bytes that the allocator had of the driver before the first entry."""
    reserved = sum(_number(segment, "total_size", where)
                   for where, segment in chosen.segments())
    for _, event in chosen.events():
        if event.kind == "grow":
            reserved -= event.size_bytes
        elif event.kind == "trim":
            reserved += event.size_bytes
    return reserved


def _read(file, device):
    snapshot = load(file, _WANTED)
    if (isinstance(snapshot, list) and snapshot
            and isinstance(snapshot[0], dict) and "blocks" in snapshot[0]):
        snapshot = {"segments": snapshot}  # of torch.cuda.memory_snapshot()
    if not isinstance(snapshot, dict):
        raise TraceError(f"the pickle has a {_called(type(snapshot))}, not a "
                         f"snapshot")
    return (_with_entries(snapshot, device)
            or _without_entries(snapshot, device))


def convert(file, cleaner, writer, options):
    """Puts one device's entries into the cleaner; TraceError with the offset,
    or naming the entry."""
    chosen = _read(file, options.device)
    events = itertools.chain(_live_before(chosen), _merged(chosen.events()))
    first = next(events, None)
    if first is None:
        raise TraceError("no entry is about memory")
    writer.info("device", chosen.ordinal)
    if chosen.is_host:
        writer.info("memory", "pinned")
    if chosen.trace is None:
        writer.info("history", "none")
    elif chosen.trace.skipped_count:
        cleaner.counts["skipped_entries"] = chosen.trace.skipped_count
    reserved = _reserved_before(chosen)
    if reserved >= 0:  # below where the ring has lost what grew
        writer.info("reserved_before_bytes", reserved)
    for where, event in itertools.chain([first], events):
        try:
            cleaner.put(event)
        except TraceError as error:
            raise TraceError(f"{where}: {error}") from None
