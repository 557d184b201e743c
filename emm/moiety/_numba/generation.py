# SPDX-License-Identifier: Apache-2.0
"""The memory of one context from one reset to the next: a pool, pinned arenas,
pinned arrays of the program's own, and managed memory.

A reset ends a generation, and finalizers of its arrays may still come, from any
thread and at any later time. They find nothing to do: a block knows that its
pool is closed, and the records of the others are gone from this generation's
dictionaries, which the reset has emptied. None of them raises, and nothing that
they use takes a lock: the garbage collector runs them in the middle of
anything.
"""

import collections
import contextlib
import threading
import weakref

from moiety import _native
from moiety._ipc import exports
from moiety._numba.family import FAMILY, driver, numba_driver
from moiety._pools.pools import pool_for


class Cleanup:
    """Calls functions at once, or when the last deferred() ends. They must not
    raise: there may be nobody to hear it."""

    def __init__(self):
        self._depth = 0
        # A collection of garbage while it is held may come back to it.
        self._depth_lock = threading.RLock()
        self._waiting = collections.deque()

    def call(self, function, *arguments):
        """Calls the function, or keeps it with its arguments for later."""
        if not self._depth:
            function(*arguments)
            return
        self._waiting.append((function, arguments))
        # Another thread may have ended the last deferred() in between, and
        # have found nothing.
        if not self._depth:
            self._drain()

    def _drain(self):
        while self._waiting:
            try:
                function, arguments = self._waiting.popleft()
            except IndexError:  # another thread took it
                return
            function(*arguments)

    @contextlib.contextmanager
    def deferred(self):
        """May be nested, and entered by several threads: all of them count."""
        with self._depth_lock:
            self._depth += 1
        try:
            yield
        finally:
            with self._depth_lock:
                self._depth -= 1
                is_last = not self._depth
            if is_last:
                self._drain()


# With these a pool is as it was.
NOT_CLOSED = (_native.InUseError, _native.CapturingError,
              _native.ReentrantError, _native.ForkedError,
              _native.OutOfMemoryError)


def free_block(block):
    """For finalizers."""
    try:
        block.free()
    except _native.Error:
        # The child of a fork, or a driver that fails: the memory is lost, and
        # whoever allocates next is told why.
        pass


def unpin(address, size, _owner):
    """For finalizers. The owner is named so that it lives until now."""
    try:
        _native.unpin(address, size)
    except _native.Error:
        pass  # as above


def free_managed(context_handle, pointer):
    """For finalizers, whose thread may have no context."""
    try:
        driver.cuCtxPushCurrent(FAMILY.pushable(context_handle))
        try:
            driver.cuMemFree(pointer)
        finally:
            driver.pop_active_context()
    except numba_driver.CudaDriverError:
        pass  # as above


class Generation:
    """Threads: any; what is made on first use is made once.

    source: what the program has named to take device memory from, which outlives
    the generation; None: a pool of its own, with the options."""

    def __init__(self, context, pool_options, source=None):
        self._source = source
        self._handle = context.handle
        # Finalizers hold this generation, and are not to hold the context.
        self._context = weakref.proxy(context)
        self._pool_options = pool_options
        # A collection of garbage while it is held may come back to it.
        self._lock = threading.RLock()
        self._pool = None
        self._arenas = {}
        # What finalizers take away again, by a key of their own: address,
        # bytes and owner of what is pinned; pointers of managed memory.
        self.pins = {}
        self.managed = {}

    def _place(self):
        """The options that say where; asked for when they are needed, as not
        everybody who makes a context of numba's gives it a device."""
        device = self._context.device
        return {"device": int(getattr(device, "id", device)),
                "context": FAMILY.context_address(self._context)}

    def pool(self):
        """The pool; made by the first call."""
        pool = self._pool
        if pool is None:
            with self._lock:
                pool = self._pool
                if pool is None:
                    pool = self._pool = self._find_pool()
        return pool

    def _find_pool(self):
        place = self._place()
        if self._source is not None:
            return pool_for(self._source, place["device"])
        return _native.Pool(exportable=True, **place, **self._pool_options)

    def arena(self, write_combined):
        """One of two arenas next to the device; made by the first call."""
        arena = self._arenas.get(write_combined)
        if arena is None:
            with self._lock:
                arena = self._arenas.get(write_combined)
                if arena is None:
                    arena = self._arenas[write_combined] = _native.HostArena(
                        write_combined=write_combined, **self._place())
        return arena

    def free_pinned(self, key, cleanup):
        """Unpins, now or later, unless a reset has done so."""
        pinned = self.pins.pop(key, None)
        if pinned:
            cleanup.call(unpin, *pinned)

    def free_managed(self, key, cleanup):
        """Frees managed memory, now or later, unless a reset has done so."""
        pointer = self.managed.pop(key, None)
        if pointer is not None:
            cleanup.call(free_managed, self._handle, pointer)

    def export(self, address):
        """The bytes of a moiety_ipc_handle; None for memory that is none of
        the pool's."""
        pool = self._pool
        if pool is None:
            return None
        try:
            return exports.export(pool, address)[0]
        except _native.Error as error:
            if error.status != "E_FOREIGN":
                raise
            return None

    def free_bytes(self, device_free_bytes):
        """What the pool has from the driver and nobody uses, and what it may
        still get, of what the device has."""
        stats = self.pool().stats()
        reserved_bytes = stats.reserved_bytes_current
        room_bytes = max(stats.limit_bytes - reserved_bytes, 0)
        return (min(device_free_bytes, room_bytes) + reserved_bytes
                - stats.allocated_bytes_current)

    def trim(self, keep_bytes):
        """Bytes given back, by the pool and by the arenas."""
        pool = self._pool
        given_back = 0 if pool is None else pool.trim(keep_bytes)
        return given_back + sum(
            arena.trim() for arena in list(self._arenas.values()))

    def end(self):
        """Gives everything up but pinned arrays: those are memory of the CPU,
        which must not vanish below it, and so an arena lives as long as the
        last of its blocks. Returns the pool if it has to be closed later,
        because a thread is in it or a graph is being captured; else None."""
        self._arenas.clear()
        for key in list(self.pins):
            pinned = self.pins.pop(key, None)
            if pinned:
                unpin(*pinned)
        for key in list(self.managed):
            pointer = self.managed.pop(key, None)
            if pointer is not None:
                free_managed(self._handle, pointer)
        pool, self._pool = self._pool, None
        if self._source is not None:
            return None  # others use it, and arrays that are left as well
        return pool if pool is not None and not is_closed(pool) else None


def is_closed(pool):
    """Closes a pool; False if that must wait. A driver that refuses to take
    memory back does not hold up a reset, which may be what the program does
    because of it: the pool is gone then, too."""
    try:
        pool.close()
    except NOT_CLOSED:
        return False
    except _native.Error:
        pass
    return True
