# SPDX-License-Identifier: Apache-2.0
"""What this process has exported, and who still counts on it.

The library ends exports by the segment, in which many blocks lie, because that
is what an importer opens. So exports are counted for each segment, and the last
one that is released ends them all. Those that nobody ever releases (numba's
handles) count too, and so keep their segment from being released by others.

Of a binade_ipc_handle (binade/ipc.h) only the fields below are read here: the
library checks the whole of it when it is imported.
"""

import os
import struct
import threading

# sizeof(binade_ipc_handle)
C_BYTES = 176
_SIZE = struct.Struct("=Q")
_SIZE_AT = 88
_UUID = slice(96, 112)
_IDS = struct.Struct("=QQ")
_IDS_AT = 152


def size_bytes(c_bytes):
    """Bytes from what was exported to the end of its block; struct.error for
    too few bytes."""
    return _SIZE.unpack_from(c_bytes, _SIZE_AT)[0]


def device_uuid(c_bytes):
    return c_bytes[_UUID]


def segment_and_generation(c_bytes):
    """(segment_id, generation)."""
    return _IDS.unpack_from(c_bytes, _IDS_AT)


# Reentrant: a finalizer that releases may run while an export is under way.
_lock = threading.RLock()
# segment_id -> _Segment. They keep their pools: one that was dropped would take
# from the peers what they have open.
_segments = {}


class _Segment:
    """One generation of a segment's exports."""

    def __init__(self, pool, generation):
        self.pool = pool
        self.generation = generation
        self.count = 0


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


def _segment_of(pool, segment_id, generation):
    segment = _segments.get(segment_id)
    if segment is None or segment.generation != generation:
        _drop_closed()
        segment = _segments[segment_id] = _Segment(pool, generation)
    return segment


class Lease:
    """One export, until release()."""

    def __init__(self, pool, address, handle):
        self._segment_id, generation = (
            segment_and_generation(handle))
        self._address = address
        self._segment = _segment_of(pool, self._segment_id, generation)
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
            is_current = _segments.get(self._segment_id) is segment
            if is_current and segment.count == 1:
                if segment.pool.is_open:
                    segment.pool.release_exports(self._address)
                del _segments[self._segment_id]
            segment.count -= 1
            self._segment = None


def export(pool, address):
    """The bytes of a binade_ipc_handle, and the Lease of it."""
    with _lock:
        handle = pool.export(address)
        return handle, Lease(pool, address, handle)
