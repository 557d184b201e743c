# SPDX-License-Identifier: Apache-2.0
"""CuPy on the pool.

    import moiety.cupy
    moiety.cupy.enable(limit="8GiB")

or, for a pool of the program's own:

    pool = moiety.Pool(limit="8GiB")
    cupy.cuda.set_allocator(moiety.cupy.allocator(pool))

Arrays are allocated for CuPy's current device and stream. They are freed on the
stream that they were allocated for, as by CuPy's own pool. The program orders
work on other streams, as there. No call of the allocator runs Python.
docs/guides/numba-cupy.md has more.

Sizes are in bytes. Threads: any."""

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
from moiety._support import arguments as _arguments

__all__ = ["MemoryPool", "OutOfMemoryError", "PinnedMemoryPool", "allocator",
           "enable", "pinned_allocator"]

# cupy.cuda.stream asks this module for the current stream, by the same function.
_kept_streams = sys.modules.get("cupy_backends.cuda.stream", _stream)

# Graphs may be captured with CuPy's streams while a pool is trimmed.
_capture_hook.HOOK.install()


class OutOfMemoryError(_native.OutOfMemoryError, _memory.OutOfMemoryError):
    """There is no memory. It is CuPy's OutOfMemoryError too. `status` and `report`
    are those of moiety.OutOfMemoryError."""

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
    pool = _pools.pool_behind(_pools.pool_for(source, _device.get_device_id()))
    refusal = OutOfMemoryError(size, pool.total_bytes, pool.limit,
                               str(error))
    refusal.status, refusal.report = error.status, error.report
    raise refusal from error


class MemoryPool:
    """The interface of CuPy's MemoryPool over a pool of Moiety. All methods apply to
    CuPy's current device.

    pool  a moiety.Pool, moiety.Pools, or Tenant of a Pool; None is
          moiety.pools().

    CuPy's memory hooks are not called. malloc() raises ValueError on a device that
    the pool is not of."""

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
        return _pools.pool_behind(self._current())

    def used_bytes(self):
        """Returns the bytes of the blocks in use, also by others than CuPy. Of a
        tenant, these are its own."""
        source = self._current()
        if isinstance(source, _native.Tenant):
            return source.stats().live_bytes
        return source.used_bytes

    def total_bytes(self):
        """Returns the bytes that the pool has reserved, in use or not."""
        return self._pool().total_bytes

    def free_bytes(self):
        """Returns the bytes that the pool has reserved and that are not in use."""
        pool = self._pool()
        return max(pool.total_bytes - pool.used_bytes, 0)

    def n_free_blocks(self):
        """Returns the number of runs of free memory. The call takes a snapshot."""
        return sum(interval["kind"] != "live"
                   for interval in self._pool().snapshot()["intervals"])

    def free_all_blocks(self, stream=None):
        """Returns unused memory to the driver, after the queued work of all streams.
        `stream` has no effect. During a capture, only memory that waits for no work returns."""
        self._pool().trim(wait=True)

    def set_limit(self, size=None, fraction=None):
        """Sets the most bytes that the pool of the current device reserves. Of a tenant,
        it sets the budget.

        size      a number, or text such as "8GiB"; 0 or None is all that the device has.
        fraction  the same as a part of the device's memory, from 0 to 1."""
        source = self._current()
        limit = _limit_of(size, fraction, _device.get_device_id())
        if isinstance(source, _native.Tenant):
            source.budget = limit
        else:
            source.set_limit(limit)

    def get_limit(self):
        """Returns the limit. Of a pool it is never 0; of a tenant, 0 is no budget."""
        source = self._current()
        if isinstance(source, _native.Tenant):
            return source.budget
        return source.limit


def _limit_of(size, fraction, device):
    if fraction is None:
        if isinstance(size, int) and size < 0:
            raise ValueError(f"memory limit size out of range: {size}")
        return _native._bytes_of("size", size)
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
    """The interface of CuPy's PinnedMemoryPool over a moiety.HostArena.

    arena  the HostArena; None creates one next to the current device.

    Memory that is dropped is reused after the work of all streams that is queued then."""

    def __init__(self, arena=None):
        if arena is None:
            arena = _native.HostArena(_device.get_device_id())
        if not isinstance(arena, _native.HostArena):
            raise TypeError(f"{arena!r} is no moiety.HostArena")
        self._arena = arena

    def malloc(self, size):
        """Allocates `size` bytes and returns a cupy.cuda.PinnedMemoryPointer."""
        block = self._arena.alloc(size) if size else None
        if block is not None:
            # NumPy arrays will have its address, which close() must not take.
            block.__array_interface__
        return _pinned_memory.PinnedMemoryPointer(_PinnedMemory(block, size),
                                                  0)

    def used_bytes(self):
        """Returns the bytes of the blocks in use."""
        return self._arena.used_bytes

    def total_bytes(self):
        """Returns the bytes that are pinned, in use or not."""
        return self._arena.total_bytes

    def free_all_blocks(self):
        """Unpins memory that is not in use."""
        self._arena.trim(wait=True)


def allocator(pool=None):
    """Returns the malloc() of a MemoryPool, for cupy.cuda.set_allocator() and
    cupy.cuda.using_allocator()."""
    return MemoryPool(pool).malloc


def pinned_allocator(arena=None):
    """Returns the malloc() of a PinnedMemoryPool, for
    cupy.cuda.set_pinned_memory_allocator()."""
    return PinnedMemoryPool(arena).malloc


@_arguments.named
def enable(pool=None, *, limit=None, pinned=False):
    """Makes Moiety CuPy's allocator in all threads, and returns the MemoryPool.

    pool    a moiety.Pool, moiety.Pools, or Tenant of a Pool; None is moiety.pools().
    limit   the most bytes that each device's pool reserves, without `pool`: a
            number, or text such as "8GiB".
    pinned  True for pinned memory too, or a moiety.HostArena for it.

    Existing arrays stay where they are. Call
    cupy.get_default_memory_pool().free_all_blocks() to return unused memory of CuPy's
    own pool. Raises ValueError within cupy.cuda.using_allocator()."""
    pool = _pools.source_of(pool, limit)
    made = MemoryPool(pool)
    _memory.set_allocator(made.malloc)
    if pinned:
        _pinned_memory.set_pinned_memory_allocator(
            pinned_allocator(None if pinned is True else pinned))
    return made
