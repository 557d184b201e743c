# SPDX-License-Identifier: Apache-2.0
"""The snapshots of PyTorch's allocator (torch.cuda.memory._dump_snapshot), as
events of one device."""

import itertools

from moiety._trace.clean import Event
from moiety._trace.format import (
    CONTROL, NUMBER_MAX, TEXT_BYTES_MAX, TraceError)
from moiety._trace.plain_pickle import load

# The entries have no thread.
THREAD = "all"
# A recording with more than this is of a program that makes tags of
# numbers.
_TAG_COUNT_MAX = 1 << 12

_KINDS = {"alloc": "alloc", "free_requested": "free_requested",
          "free_completed": "free", "segment_alloc": "grow",
          "segment_map": "grow", "segment_free": "trim",
          "segment_unmap": "trim", "oom": "oom"}
_WITH_ADDRESS = frozenset(("alloc", "free_requested", "free"))


def _member(about, key, kind, where):
    """about[key], of this type; a bool is no int."""
    value = about.get(key)
    if type(value) is not kind:
        what = "missing" if key not in about else f"a {type(value).__name__}"
        raise TraceError(f"{where}: {key!r} is {what}, not a {kind.__name__}")
    return value


def _number(about, key, where):
    value = _member(about, key, int, where)
    if not 0 <= value <= NUMBER_MAX:
        raise TraceError(f"{where}: {key!r} is {value}")
    return value


def _dictionaries(values, where):
    """(where, dictionary) of each."""
    for index, value in enumerate(values):
        if type(value) is not dict:
            raise TraceError(f"{where} {index} is a {type(value).__name__}, "
                             f"not a dict")
        yield f"{where} {index}", value


def _chosen(traces, device):
    """(ordinal, entries) of the device, or of the one that has any."""
    for ordinal, entries in enumerate(traces):
        if type(entries) is not list:
            raise TraceError(f"device_traces[{ordinal}] is a "
                             f"{type(entries).__name__}, not a list")
    used = [ordinal for ordinal, entries in enumerate(traces) if entries]
    if device is None and len(used) > 1:
        raise TraceError(f"the snapshot has entries of {len(used)} devices: "
                         f"name one with --device=N")
    if not used or device not in (None, *used):
        raise TraceError(
            "the snapshot has no entries"
            + (f" of device {device}" if device is not None else "")
            + ": torch.cuda.memory._record_memory_history() begins recording")
    ordinal = used[0] if device is None else device
    return ordinal, traces[ordinal]


class _Tags:
    def __init__(self):
        self._texts = set()

    def of(self, entry):
        """Its user_metadata, where that is a text; None for the rest."""
        text = entry.get("user_metadata")
        if type(text) is not str:
            return None
        # Cut first: a snapshot can name one long text at every entry.
        text = CONTROL.sub(" ", text[:TEXT_BYTES_MAX])
        text = text.encode()[:TEXT_BYTES_MAX]
        text = text.decode(errors="ignore").strip(" ")
        if not text or (text not in self._texts
                        and len(self._texts) == _TAG_COUNT_MAX):
            return None
        self._texts.add(text)
        return text


def _event(where, entry, tags):
    """None for an action that moves no memory."""
    kind = _KINDS.get(_member(entry, "action", str, where))
    if kind is None:
        return None
    # Old snapshots have no times.
    time_us = _number(entry, "time_us", where) if "time_us" in entry else 0
    return Event(
        kind, time_us * 1000, THREAD,
        _number(entry, "addr", where) if kind in _WITH_ADDRESS else None,
        # Where it is negative the message is that of every size.
        _member(entry, "size", int, where), _number(entry, "stream", where),
        tags.of(entry) if kind in ("alloc", "oom") else None)


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


def _segments(snapshot, ordinal):
    segments = _member(snapshot, "segments", list, "the snapshot")
    for where, segment in _dictionaries(segments, "segment"):
        if _number(segment, "device", where) == ordinal:
            yield where, segment


def _live_before(snapshot, ordinal, events):
    """Allocations of blocks that are live at the end and of which the entries
    know nothing: they are older."""
    known = _live_at_end(events)
    start_ns = events[0][1].time_ns
    seen = set()  # lists: a pickle can name one many times
    for outer, segment in _segments(snapshot, ordinal):
        blocks = _member(segment, "blocks", list, outer)
        if blocks and id(blocks) in seen:
            raise TraceError(f"{outer}: its blocks are another segment's")
        seen.add(id(blocks))
        address = _number(segment, "address", outer) if blocks else 0
        for where, block in _dictionaries(blocks, f"{outer}, block"):
            size = _number(block, "size", where)
            # Old snapshots have neither in a block.
            address = block.get("address", address)
            asked = block.get("requested_size", size)
            if type(address) is not int or type(asked) is not int:
                raise TraceError(f"{where}: its address or size is no int")
            if (_member(block, "state", str, where) != "inactive"
                    and address not in known):
                yield where, Event(
                    "alloc", start_ns, THREAD, address, asked,
                    _number(segment, "stream", outer), "before")
            address += size


def _reserved_before(snapshot, ordinal, events):
    """Bytes that the allocator had of the driver before the first entry."""
    reserved = sum(_number(segment, "total_size", where)
                   for where, segment in _segments(snapshot, ordinal))
    for _, event in events:
        if event.kind == "grow":
            reserved -= event.size_bytes
        elif event.kind == "trim":
            reserved += event.size_bytes
    return reserved


def _events(entries, counts):
    tags = _Tags()
    for where, entry in _dictionaries(entries, "entry"):
        event = _event(where, entry, tags)
        if event:
            yield where, event
        else:
            counts["skipped_entries"] += 1


def convert(file, cleaner, writer, options):
    """Puts one device's entries into the cleaner; TraceError with the offset,
    or naming the entry."""
    snapshot = load(file)
    if type(snapshot) is not dict:
        raise TraceError(f"the pickle has a {type(snapshot).__name__}, not a "
                         f"snapshot")
    traces = _member(snapshot, "device_traces", list, "the snapshot")
    ordinal, entries = _chosen(traces, options.device)
    events = list(_events(entries, cleaner.counts))
    if not events:
        raise TraceError("no entry is about memory")
    writer.info("device", ordinal)
    reserved = _reserved_before(snapshot, ordinal, events)
    if reserved >= 0:  # below where the ring has lost what grew
        writer.info("reserved_before_bytes", reserved)
    for where, event in itertools.chain(
            _live_before(snapshot, ordinal, events), _merged(events)):
        try:
            cleaner.put(event)
        except TraceError as error:
            raise TraceError(f"{where}: {error}") from None
