# SPDX-License-Identifier: Apache-2.0
"""CuPy on the pool.

    import moiety.cupy
    moiety.cupy.enable(limit=8 << 30)

or, for a pool of the program's own:

    pool = moiety.Pool(limit_bytes=8 << 30)
    cupy.cuda.set_allocator(moiety.cupy.allocator(pool))

Arrays are allocated for CuPy's current device and stream, and freed on the
stream that they were allocated for, as by CuPy's own pool; work that uses them
on another stream has to be ordered by the program, as there. No call of the
allocator runs Python. docs/guides/numba-cupy.md has the whole.

Sizes are in bytes. All functions may be called by any thread.
"""

import functools
import sys

try:
    from cupy.cuda import device as _device
    from cupy.cuda import memory as _memory
    from cupy.cuda import pinned_memory as _pinned_memory
    from cupy.cuda import stream as _stream
except ImportError as error:
    raise ImportError(
        f"moiety.cupy needs CuPy 14 or newer (pip install cupy-cuda13x, or "
        f"cupy-cuda12x for CUDA 12): {error}") from error

from moiety import _native
from moiety._capture import hook as _capture_hook
from moiety._pools import pools as _pools

__all__ = ["MemoryPool", "OutOfMemoryError", "PinnedMemoryPool", "allocator",
           "enable", "pinned_allocator"]

# cupy.cuda.stream asks this module for the current stream, by the same function.
_kept_streams = sys.modules.get("cupy_backends.cuda.stream", _stream)

# Graphs may be captured with CuPy's streams while a pool is trimmed.
_capture_hook.HOOK.install()


class OutOfMemoryError(_native.OutOfMemoryError, _memory.OutOfMemoryError):
    """CuPy's OutOfMemoryError as well. `status` and `report` are those of
    moiety.OutOfMemoryError."""

    def __init__(self, size, total, limit=0, message=None):
        _memory.OutOfMemoryError.__init__(self, size, total, limit)
        if message is not None:
            self.args = (message,)


def _in_c(module, name, otherwise):
    """A function of CuPy's as it is exported to Cython, or the one in
    Python."""
    return getattr(module, "__pyx_capi__", {}).get(name, otherwise)


def _current_stream_pointer():
    return _stream.get_current_stream().ptr


def _refuse(source, size, error):
    pool = _pools.pool_of(_pools.pool_for(source, _device.get_device_id()))
    refusal = OutOfMemoryError(size, pool.total_bytes(), pool.limit_bytes,
                               str(error))
    refusal.status, refusal.report = error.status, error.report
    raise refusal from error


class MemoryPool:
    """What CuPy's MemoryPool is, over a moiety.Pool, a moiety.Pools, or a
    Tenant of a Pool; None: the pools that adapters share. All methods are about
    CuPy's current device.

    Memory hooks of CuPy are not called. ValueError when memory is asked for a
    device that the pool is not of.
    """

    def __init__(self, pool=None):
        _pools.check_source(pool)
        self._source = pool
        # Nothing that it refers to refers to this object: it goes at once.
        allocator = _native._CuPyAllocator(
            functools.partial(_pools.pool_for, pool),
            functools.partial(_refuse, pool), _memory.UnownedMemory,
            _memory.MemoryPointer,
            _in_c(_device, "get_device_id", _device.get_device_id),
            _in_c(_kept_streams, "get_current_stream_ptr",
                  _current_stream_pointer))
        # In C, with no Python between it and CuPy.
        self.malloc = allocator.malloc

    def _current(self):
        return _pools.pool_for(self._source, _device.get_device_id())

    def _pool(self):
        return _pools.pool_of(self._current())

    def used_bytes(self):
        """Bytes of blocks in use, by others than CuPy too; of a tenant its
        own."""
        source = self._current()
        if isinstance(source, _native.Tenant):
            return source.stats()["live_bytes"]
        return source.used_bytes()

    def total_bytes(self):
        """Bytes that the pool has reserved, used or not."""
        return self._pool().total_bytes()

    def free_bytes(self):
        """Bytes that the pool has reserved and nobody uses."""
        pool = self._pool()
        return max(pool.total_bytes() - pool.used_bytes(), 0)

    def n_free_blocks(self):
        """How many runs of free memory the pool has. It takes a snapshot."""
        return sum(interval["kind"] != "live"
                   for interval in self._pool().snapshot()["intervals"])

    def free_all_blocks(self, stream=None):
        """Gives what nobody uses back to the driver, whatever stream is named,
        once the work is over that is queued on any; in a capture, what is
        done."""
        self._pool().free_all_blocks()

    def set_limit(self, size=None, fraction=None):
        """The most that the pool of the current device reserves; of a tenant,
        its budget. 0 or neither: what the device has."""
        source = self._current()
        limit_bytes = _limit_of(size, fraction, _device.get_device_id())
        if isinstance(source, _native.Tenant):
            source.budget_bytes = limit_bytes
        else:
            source.set_limit(limit_bytes)

    def get_limit(self):
        """That limit: a pool's is never 0, a tenant's 0 without a budget."""
        source = self._current()
        if isinstance(source, _native.Tenant):
            return source.budget_bytes
        return source.limit_bytes


def _limit_of(size, fraction, device):
    if fraction is None:
        size = 0 if size is None else size
        if size < 0:
            raise ValueError(f"memory limit size out of range: {size}")
        return size
    if size is not None:
        raise ValueError("size and fraction cannot be specified at one time")
    if not 0 <= fraction <= 1:
        raise ValueError(f"memory limit fraction out of range: {fraction}")
    return int(fraction * _native.probe(device)["total_memory_bytes"])


class _PinnedMemory:
    """What CuPy's PinnedMemoryPointer points into."""

    __slots__ = ("block", "ptr", "size")

    def __init__(self, block, size):
        self.block = block
        self.ptr = block.address if block is not None else 0
        self.size = size

    def __int__(self):
        return self.ptr


class PinnedMemoryPool:
    """What CuPy's PinnedMemoryPool is, over a moiety.HostArena; None: one next
    to the current device. Memory that is dropped serves again when all work that was
    queued until then is over."""

    def __init__(self, arena=None):
        if arena is None:
            arena = _native.HostArena(_device.get_device_id())
        if not isinstance(arena, _native.HostArena):
            raise TypeError(f"{arena!r} is no moiety.HostArena")
        self._arena = arena

    def malloc(self, size):
        """A cupy.cuda.PinnedMemoryPointer."""
        block = self._arena.alloc(size) if size else None
        if block is not None:
            # NumPy arrays will have its address, which close() must not take.
            block.__array_interface__
        return _pinned_memory.PinnedMemoryPointer(_PinnedMemory(block, size),
                                                  0)

    def used_bytes(self):
        """Bytes of blocks in use."""
        return self._arena.used_bytes()

    def total_bytes(self):
        """Bytes that are pinned, used or not."""
        return self._arena.total_bytes()

    def free_all_blocks(self):
        """Unpins what nobody uses."""
        self._arena.free_all_blocks()


def allocator(pool=None):
    """For cupy.cuda.set_allocator() and using_allocator(): the malloc() of a
    MemoryPool."""
    return MemoryPool(pool).malloc


def pinned_allocator(arena=None):
    """For cupy.cuda.set_pinned_memory_allocator(): the malloc() of a
    PinnedMemoryPool."""
    return PinnedMemoryPool(arena).malloc


def enable(pool=None, *, limit=None, pinned=False):
    """Makes this CuPy's allocator in all threads, and returns the MemoryPool.
    Arrays that are there stay where they are; call
    cupy.get_default_memory_pool().free_all_blocks() for what CuPy's own pool
    has left.

    pool    a moiety.Pool, moiety.Pools, or Tenant; None: the pools that
            adapters share.
    limit   the most that each device's pool reserves; not together with `pool`.
    pinned  pinned memory too, from a moiety.HostArena; or the arena.

    ValueError in cupy.cuda.using_allocator().
    """
    pool = _pools.source_of(pool, limit)
    made = MemoryPool(pool)
    _memory.set_allocator(made.malloc)
    if pinned:
        _pinned_memory.set_pinned_memory_allocator(
            pinned_allocator(None if pinned is True else pinned))
    return made
