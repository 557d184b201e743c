# SPDX-License-Identifier: Apache-2.0
"""Memory resources of cuda.core on the pool.

    from cuda.core import Device
    import moiety.cuda_core

    device = Device()
    device.set_current()
    device.memory_resource = moiety.cuda_core.MemoryResource()
    buffer = device.allocate(nbytes, stream=stream)

A buffer is allocated for one stream, and freed on the stream that it is closed
with, or otherwise on the first one. The program orders work on other streams, as
with the resources of cuda.core. docs/guides/libraries.md has more.

Threads: any."""

import operator

try:
    from cuda.core import Buffer, Device
    from cuda.core import MemoryResource as _MemoryResource
except ImportError as error:
    raise ImportError(f"moiety.cuda_core needs cuda.core 1.0 or newer (pip install "
                      f"\"cuda-core>=1.0\"): {error}") from error

from moiety import _native
from moiety._capture import hook as _capture_hook
from moiety._pools import pools as _pools

__all__ = ["MemoryResource", "PinnedMemoryResource"]

# Graphs may be captured with cuda.core's builders while a pool is trimmed.
_capture_hook.HOOK.install()


def _stream_of(stream):
    """The stream's number, which takes the C module less time than the object; the
    object, where there is none, as of one that is closed.

    TypeError for what is no stream, as by cuda.core's own resources: None too,
    which other parts of Moiety take for ANY."""
    try:
        number = stream.__cuda_stream__()[1]
    except AttributeError:
        if hasattr(stream, "__cuda_stream__"):
            raise
        raise TypeError(f"Stream or GraphBuilder expected, got "
                        f"{type(stream).__name__}") from None
    return number if isinstance(number, int) and number else stream


class _Resource(_MemoryResource):
    """What both kinds do alike with a Pool, Tenant or HostArena."""

    is_managed = False

    def allocate(self, size, *, stream):
        """Returns a cuda.core.Buffer of `size` bytes for work on `stream`.

        Raises moiety.OutOfMemoryError, which is a MemoryError."""
        number, size = _stream_of(stream), operator.index(size)
        address = self._source.alloc_raw(size, number)
        try:
            return Buffer.from_handle(address, size, mr=self, stream=stream)
        except BaseException:
            # No context is current, and the stream is a default one.
            self._space.free_raw(address, number)
            raise

    def deallocate(self, ptr, size, *, stream):
        """Frees the memory of a buffer. Buffers call it. The memory is reused on
        `stream` at once, and on other streams after the work that is queued on it."""
        # Buffers have a number; a block, which frees itself, is refused below.
        if type(ptr) is not int and not isinstance(
                ptr, (_native.Block, _native.HostBlock)):
            ptr = int(ptr)
        stream = _stream_of(stream)
        try:
            self._space.free_raw(ptr, stream)
        except _native.CapturingError:
            # A stream that captures cannot be waited for: all of them then.
            self._space.free_raw(ptr)


class MemoryResource(_Resource):
    """Device memory of a moiety.Pool, as a cuda.core.MemoryResource.

    device  a cuda.core.Device or an ordinal; None is the pool's device, or
            otherwise the current one.
    pool    a moiety.Pool, moiety.Pools, or Tenant of a Pool; None is
            moiety.pools().

    Raises ValueError if the pool is of another device."""

    is_device_accessible = True
    is_host_accessible = False

    def __init__(self, device=None, pool=None):
        _pools.check_source(pool)
        if device is None:
            device = (Device().device_id
                      if pool is None or isinstance(pool, _pools.Pools)
                      else _pools.pool_behind(pool).device)
        self._device_id = getattr(device, "device_id", device)
        self._source = _pools.pool_for(pool, operator.index(self._device_id))
        self._space = _pools.pool_behind(self._source)

    @property
    def device_id(self):
        """The device's ordinal."""
        return self._device_id

    @property
    def pool(self):
        """The moiety.Pool."""
        return self._space


class PinnedMemoryResource(_Resource):
    """Pinned host memory of a moiety.HostArena, as a cuda.core.MemoryResource.
    The device reaches it too.

    arena  the HostArena; None creates one next to the current device."""

    is_device_accessible = True
    is_host_accessible = True
    device_id = -1

    def __init__(self, arena=None):
        if arena is None:
            arena = _native.HostArena(Device().device_id)
        if not isinstance(arena, _native.HostArena):
            raise TypeError(f"{arena!r} is no moiety.HostArena")
        self._source = self._space = arena

    @property
    def arena(self):
        """The moiety.HostArena."""
        return self._space
