# SPDX-License-Identifier: Apache-2.0
"""Heaps and histories in the form of PyTorch's memory snapshots, which its
viewer (https://pytorch.org/memory_viz) opens.

The viewer goes back in time from the segments as they are, undoing one entry
after the other. So each entry has to be of memory in a segment that is there,
and nothing is told of what came later than the segments.
"""

import pickle
from bisect import bisect, bisect_left

from moiety._observe import MAPPED

_STATES = {"used": "active_allocated", "kept": "active_allocated",
           "retiring": "active_pending_free"}
_FREES = frozenset(("free", "free_sized", "free_after"))
_OUT_OF_MEMORY = frozenset(
    ("MOIETY_E_NO_DEVICE_MEMORY", "MOIETY_E_NO_PINNED_MEMORY"))
# Above it are ANY and DONE, which name no stream.
_STREAM_MAX = (1 << 63) - 1
# The viewer's unpickler knows the protocols 2 to 4.
_PROTOCOL = 4


def _stream(number):
    return number if number <= _STREAM_MAX else 0


def _frame(text):
    """The viewer shows frames beside what the mouse is on."""
    return [{"name": text, "filename": "moiety", "line": 0}]


def _ranges(some):
    return sorted((one["address"], one["size_bytes"]) for one in some)


def _is_in(ranges, address):
    index = bisect(ranges, (address, 1 << 64)) - 1
    if index < 0:
        return False
    start, size = ranges[index]
    return address - start < size


class _Heap:
    """The segments of a pool, and what addresses are in them."""

    def __init__(self, pool):
        self._intervals = pool["intervals"]
        self.segments = pool["segments"]
        self._pending = _ranges(
            one for one in self._intervals
            if _STATES.get(one["kind"]) == "active_pending_free")
        self._segments = _ranges(self.segments)

    def has(self, address):
        return _is_in(self._segments, address)

    def is_pending(self, address):
        """Several freed blocks may have become one interval."""
        return _is_in(self._pending, address)

    def of(self, segment):
        first = segment["first_interval"]
        return self._intervals[first:first + segment["interval_count"]]


class _Entries:
    """A pool's history as entries of a trace."""

    def __init__(self, pool, heap, epoch_ns):
        self.entries = []  # (time_ns, entry)
        self.live = {}  # address to bytes asked for
        self.pending = []  # addresses that were freed and wait for work
        self._heap = heap
        self._epoch_ns = epoch_ns
        self._frames = {}
        history = pool.get("history") or {"entries": []}
        for one in history["entries"]:
            if one["time_ns"] <= pool["time_ns"]:
                self._take(one)
        self._reopen()

    def _add(self, one, action, size, **others):
        thread = one["thread_id"]
        self.entries.append((one["time_ns"], {
            "action": action, **others, "size": size,
            "stream": _stream(one["stream"]),
            "time_us": (one["time_ns"] + self._epoch_ns) // 1000,
            "frames": self._frames.setdefault(
                thread, _frame(f"thread {thread}"))}))

    def _take(self, one):
        kind, address = one["kind"], one["address"]
        if kind == "alloc" and one["status"] in _OUT_OF_MEMORY:
            self._add(one, "oom", one["size_bytes"], device_free=0)
        if one["status"] != "MOIETY_OK" or not self._heap.has(address):
            return
        if kind == "alloc":
            self.live[address] = one["size_bytes"]
            self._add(one, "alloc", one["size_bytes"], addr=address)
        elif kind in _FREES:
            size = self.live.pop(address, one["size_bytes"])
            self._add(one, "free_requested", size, addr=address)
            self._add(one, "free_completed", size, addr=address)

    def _reopen(self):
        """The last free of what still waits for work is not completed."""
        seen = set()
        for index in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[index][1]
            address = entry.get("addr")
            if address is None or address in seen:
                continue
            seen.add(address)
            if (entry["action"] == "free_completed" and
                    self._heap.is_pending(address)):
                del self.entries[index]
                self.pending.append(address)
        self.pending.sort()


def _block(interval, live):
    kind, thread = interval["kind"], interval["thread_id"]
    text = f"{kind} by thread {thread}" if thread else kind
    state = _STATES.get(kind, "inactive")
    size = interval["size_bytes"]
    asked = live.get(interval["address"], size) if kind == "used" else size
    return {"address": interval["address"], "size": size,
            "requested_size": min(asked, size), "state": state,
            "frames": _frame(text)}


def _pieces(interval, cuts):
    """What waits for work, by the blocks that were freed there."""
    start, end = interval["address"], interval["address"] + interval["size_bytes"]
    starts = [start] + cuts[bisect(cuts, start):bisect_left(cuts, end)]
    return [{**interval, "address": one, "size_bytes": following - one}
            for one, following in zip(starts, [*starts[1:], end])]


def _segment(pool, segment, intervals, history):
    blocks = [_block(piece, history.live) for one in intervals
              for piece in _pieces(one, history.pending)]
    allocated = [one for one in blocks if one["state"] == "active_allocated"]
    return {
        "device": pool["device"], "address": segment["address"],
        "total_size": segment["size_bytes"],
        "allocated_size": sum(one["size"] for one in allocated),
        "active_size": sum(one["size"] for one in blocks
                           if one["state"] != "inactive"),
        "requested_size": sum(one["requested_size"] for one in allocated),
        "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
        "is_expandable": pool["source"] == MAPPED,
        "frames": _frame(f"pool {pool['id']}, {pool['source']}"),
        "blocks": blocks}


def snapshot_of(answer):
    """The dictionary that torch.cuda.memory._snapshot() would return, of an
    answer to "snapshot". Pinned memory is in host_segments and host_traces."""
    places = {"device": ([], {}), "pinned": ([], {})}
    epoch_ns = answer["epoch_ns"] - answer["time_ns"]
    device_count = 0
    for pool in answer["pools"]:
        if "segments" not in pool:
            continue
        segments, traces = places[pool["memory"]]
        heap = _Heap(pool)
        history = _Entries(pool, heap, epoch_ns)
        segments += [_segment(pool, one, heap.of(one), history)
                     for one in heap.segments]
        traces.setdefault(pool["device"], []).extend(history.entries)
        device_count = max(device_count, pool["device"] + 1)

    def lists(traces):
        return [[entry for _, entry in sorted(traces.get(device, []),
                                              key=lambda pair: pair[0])]
                for device in range(device_count)]
    return {"segments": places["device"][0],
            "device_traces": lists(places["device"][1]),
            "host_segments": places["pinned"][0],
            "host_traces": lists(places["pinned"][1]),
            "allocator_settings": {"allocator": "moiety",
                                   "version": answer["version"]},
            "external_annotations": []}


def dump(answer, file):
    """Writes what snapshot() returned into a file, as a pickle for PyTorch's viewer."""
    pickle.dump(snapshot_of(answer), file, _PROTOCOL)
