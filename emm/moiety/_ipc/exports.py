# SPDX-License-Identifier: Apache-2.0
"""What this process has exported, and who still counts on it.

The library ends exports by what an importer opens, in which many blocks lie: a
segment of the driver's, or of mapped memory the run of pieces that a block is
in. So exports are counted for each, and the last one that is released ends them
all; runs that overlap, directly or through others, end together. Those that
nobody ever releases (numba's handles) count too, and so keep their segment from
being released by others.

Of a moiety_ipc_handle (moiety/ipc.h) only the fields below are read here: the
library checks the whole of it when it is imported.
"""

import os
import struct
import threading

# sizeof(moiety_ipc_handle)
C_BYTES = 176
# segment_bytes, offset_bytes, size_bytes
_PLACE = struct.Struct("=QQQ")
_PLACE_AT = 72
_UUID = slice(96, 112)
# kind, segment_id, generation
_NAME = struct.Struct("=IQQ")
_NAME_AT = 148
_MAPPED = 1


def size_bytes(c_bytes):
    """Bytes from what was exported to the end of its block; struct.error for
    too few bytes."""
    return _PLACE.unpack_from(c_bytes, _PLACE_AT)[2]


def device_uuid(c_bytes):
    return c_bytes[_UUID]


# Reentrant: a finalizer that releases may run while an export is under way.
_lock = threading.RLock()
# (first address, end) -> _Segment. They keep their pools: one that was dropped
# would take from the peers what they have open.
_segments = {}


class _Segment:
    """One generation of a segment's exports, or of a run's."""

    def __init__(self, pool, address, c_bytes):
        size, offset, _ = _PLACE.unpack_from(c_bytes, _PLACE_AT)
        self.pool = pool
        self.first = address - offset
        self.end = self.first + size
        self.name = _NAME.unpack_from(c_bytes, _NAME_AT)
        self.count = 0

    place = property(lambda self: (self.first, self.end))
    is_mapped = property(lambda self: self.name[0] == _MAPPED)


def _forget():
    """In the child of a fork, which has exported nothing."""
    global _lock
    _lock = threading.RLock()
    _segments.clear()


os.register_at_fork(after_in_child=_forget)


def _drop_closed():
    for key, segment in list(_segments.items()):
        if not segment.pool.is_open:
            del _segments[key]


def _listed(fresh):
    """The segment that is known already, or this one. At its place there is one
    at a time: another name says that the old one was released."""
    known = _segments.get(fresh.place)
    if known and known.pool is fresh.pool and known.name == fresh.name:
        return known
    _drop_closed()
    _segments[fresh.place] = fresh
    return fresh


def _released_with(segment):
    """The segments that the library releases together with it."""
    if not segment.is_mapped:
        return [segment]
    runs = [run for run in _segments.values()
            if run.is_mapped and run.pool is segment.pool]
    together, end = [], 0
    for run in sorted(runs, key=lambda run: run.first):
        if run.first >= end:
            if segment in together:
                break
            together = []
        together.append(run)
        end = max(end, run.end)
    return together


class Lease:
    """One export, until release()."""

    def __init__(self, pool, address, c_bytes):
        self._address = address
        self._segment = _listed(_Segment(pool, address, c_bytes))
        self._segment.count += 1

    def release(self):
        """Ends it, and with the last one the exports of the segment. A second
        call does nothing, nor does one after the pool was closed or its exports
        were released otherwise. Raises what Pool.release_exports() does: then
        nothing has changed."""
        with _lock:
            segment = self._segment
            if segment is None:
                return
            if (segment.count == 1
                    and _segments.get(segment.place) is segment):
                self._release_all(_released_with(segment))
            segment.count -= 1
            self._segment = None

    def _release_all(self, together):
        if sum(segment.count for segment in together) > 1:
            return
        if self._segment.pool.is_open:
            self._segment.pool.release_exports(self._address)
        for segment in together:
            del _segments[segment.place]


def _leased(pool, address, make):
    with _lock:
        c_bytes = make(address)
        return c_bytes, Lease(pool, address, c_bytes)


def export(pool, address):
    """The bytes of a moiety_ipc_handle, and the Lease of it."""
    return _leased(pool, address, pool.export)


def ticket(pool, address):
    """The same, also of mapped memory: there it names what a peer has received,
    and opens nothing."""
    return _leased(pool, address, pool.ticket)
