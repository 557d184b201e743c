# SPDX-License-Identifier: Apache-2.0
"""The moments of a trace at which most is live, and whose memory that is."""

import collections
import dataclasses

from moiety._trace.format import FREES
from moiety._trace.reader import read

# Two moments are apart if so much of the peak is freed between them.
_APART = 20


@dataclasses.dataclass(frozen=True)
class Owner:
    """The live blocks of a tag, or where there is none of a length."""
    tag: str | None
    size_bytes: int | None
    live_bytes: int
    count: int


@dataclasses.dataclass(frozen=True)
class Moment:
    """`operation` counts from 1; `since_ns` is from the first operation on."""
    operation: int
    since_ns: int
    live_bytes: int
    count: int
    owners: tuple  # of Owner, the largest first


def _heights(path, watch):
    """(live bytes, operation) of each rise, the highest first."""
    found = []
    highest = top = at = low = 0
    rises = True
    with read(path, watch) as reader:
        for _ in reader:
            live = reader.live.live_bytes
            highest = max(highest, live)
            apart = highest / _APART
            if not rises:
                low = min(low, live)
                rises, top = live - low > apart, 0
            if rises and live > top:
                top, at = live, reader.operation_count
            elif rises and top - live > apart:
                found.append((top, at))
                rises, low = False, live
    if rises and top:
        found.append((top, at))
    return sorted(found, key=lambda one: (-one[0], one[1]))


def _owners(live):
    sums = collections.defaultdict(lambda: [0, 0])
    for size_bytes, tag in live.values():
        key = (tag, None) if tag is not None else (None, size_bytes)
        sums[key][0] += size_bytes
        sums[key][1] += 1
    return tuple(sorted(
        (Owner(tag, size, *counts) for (tag, size), counts in sums.items()),
        key=lambda one: (-one.live_bytes, one.tag or "", one.size_bytes or 0)))


def highest(path, count=3, watch=None):
    """Up to `count` Moments, the one with most first; TraceError for a file that
    is not whole. Reads it twice."""
    wanted = {at for _, at in _heights(path, watch)[:count]}
    moments = []
    live = {}
    first_ns = None
    with read(path, watch) as reader:
        for operation in reader:
            if first_ns is None:
                first_ns = operation.time_ns
            if operation.kind == "alloc":
                live[operation.id] = (operation.size_bytes, operation.tag)
            elif operation.kind in FREES:
                del live[operation.id]
            if reader.operation_count in wanted:
                moments.append(Moment(
                    reader.operation_count, operation.time_ns - first_ns,
                    reader.live.live_bytes, reader.live.live_count,
                    _owners(live)))
    return sorted(moments, key=lambda one: (-one.live_bytes, one.operation))
