# SPDX-License-Identifier: Apache-2.0
"""What a trace comes to."""

import collections

from moiety._trace.reader import read


class _Reserved:
    """What the program's own allocator had of the driver, where that is known
    for the trace's start."""

    def __init__(self):
        self._now = 0
        self._highest = 0

    def add(self, operation):
        if operation.kind == "grow":
            self._now += operation.size_bytes
        elif operation.kind == "trim":
            self._now -= operation.size_bytes
        self._highest = max(self._highest, self._now)

    def peak_bytes(self, info):
        before = info.get("reserved_before_bytes", "")
        if not (before.isdecimal() and len(before) <= 20):
            return None
        return int(before) + self._highest


def _extent(operations):
    """(operations by kind, bytes allocated, largest allocation, first time,
    _Reserved); reads to the end."""
    kinds = collections.Counter()
    allocated = largest = 0
    first_ns = None
    reserved = _Reserved()
    for one in operations:
        kinds[one.kind] += 1
        if first_ns is None:
            first_ns = one.time_ns
        if one.kind == "alloc":
            allocated += one.size_bytes
            largest = max(largest, one.size_bytes)
        reserved.add(one)
    return kinds, allocated, largest, first_ns or 0, reserved


def collect(path, watch=None):
    """A dictionary for JSON; TraceError for a file that is not whole. `watch`
    as read() calls it."""
    with read(path, watch) as reader:
        kinds, allocated, largest, first_ns, reserved = _extent(reader)
    return {
        "version": 1,
        "operations": reader.operation_count,
        "kinds": dict(sorted(kinds.items())),
        "threads": len(reader.threads),
        "streams": len(reader.streams),
        "tags": len(reader.tags),
        "duration_ns": reader.time_ns - first_ns,
        "allocated_bytes": allocated,
        "largest_bytes": largest,
        "peak_live_bytes": reader.live.peak_bytes,
        "peak_live_count": reader.live.peak_count,
        "end_live_bytes": reader.live.live_bytes,
        "end_live_count": reader.live.live_count,
        "peak_reserved_bytes": reserved.peak_bytes(reader.info),
        "info": reader.info,
    }
