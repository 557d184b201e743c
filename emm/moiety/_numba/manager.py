# SPDX-License-Identifier: Apache-2.0
"""numba's memory manager over the pool: numba's EMM interface, version 1.

numba never says which stream uses an array. So every block is allocated and
freed with ANY: a freed block serves again when all work that the context had at
that moment is over, and not before. docs/guides/numba-cupy.md says what that means.

numba makes one manager for each context, and a new one when the context is made
again after numba.cuda.close().
"""

import functools
import struct
import weakref

from numba import cuda
from numba.cuda.cudadrv import driver as numba_driver

from moiety import _native
from moiety._numba import ipc
from moiety._numba.core import Resource
from moiety._numba.family import FAMILY
from moiety._numba.generation import (
    Cleanup, Generation, free_block, is_closed)

# Of moiety_ipc_handle: version, struct_size, driver_handle, segment_bytes,
# offset_bytes.
IPC_HANDLE = struct.Struct("=II64sQQ")
IPC_VERSION = 1


class OutOfMemoryError(_native.OutOfMemoryError, numba_driver.CudaAPIError):
    """There is no memory. It is a MemoryError, and numba's CudaAPIError with the code
    CUDA_ERROR_OUT_OF_MEMORY. `status` and `report` are those of
    moiety.OutOfMemoryError."""

    def __init__(self, code, msg):
        numba_driver.CudaAPIError.__init__(self, code, msg)


def alloc(source, size):
    """A block of a pool or an arena. Empty arrays get the smallest: numba's
    views want an address."""
    try:
        return source.alloc(size or 1)
    except _native.OutOfMemoryError as error:
        numbas = OutOfMemoryError(FAMILY.out_of_memory_code(), str(error))
        numbas.status, numbas.report = error.status, error.report
        raise numbas from error


class DeviceMemory(cuda.MemoryPointer):
    """Device memory that ends with its block, which frees itself in C: the
    finalizer that numba would make costs more than all else."""

    def __init__(self, context, size, block):
        super().__init__(context, FAMILY.device_pointer(block.address), size)
        self._block = block

    def free(self):
        """As numba's: once, and before the arrays that use it go."""
        block, self._block = self._block, None
        if block is None:
            raise RuntimeError("Freeing dead memory")
        free_block(block)


def trim_quietly(generation, keep_bytes, out_given_back):
    """What the driver does not take back stays with the pool, which tells so in
    its statistics; and a deferred trim has no caller to be told."""
    try:
        out_given_back.append(generation.trim(keep_bytes))
    except _native.Error:
        pass


class Manager(cuda.GetIpcHandleMixin, cuda.BaseCUDAMemoryManager):
    """numba's memory manager over the pool. numba creates one for each context. The
    class is for programs that pass it to numba.cuda.set_memory_manager() themselves.

    Threads: any."""

    interface_version = 1
    # What moiety.Pool is made with, for every context.
    pool_options = {}
    # Or what it is taken from; None: a pool for each context.
    source = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._cleanup = Cleanup()
        self._unclosed = []
        self._resource = None
        # numba makes one without a context, to ask for its version.
        self._generation = None
        if self.context is not None:
            self._generation = self._new_generation()

    @property
    def generation(self):
        """Of the context now; RuntimeError for a manager without a context."""
        if self._generation is None:
            raise RuntimeError(
                "this memory manager was made without a context, and has no "
                "memory: numba makes one with each context")
        return self._generation

    def _new_generation(self):
        return Generation(self.context, self.pool_options, self.source)

    def initialize(self):
        """numba calls it whenever a thread turns to the context, so it does
        next to nothing: pool and arenas are made when they are needed."""
        if self._generation is None:
            return
        if self._resource is None:
            self._resource = self._offer_to_cuda_core()
        if self._unclosed:
            self._unclosed = [pool for pool in self._unclosed
                              if not is_closed(pool)]

    def _offer_to_cuda_core(self):
        """The resource that numba's device got; False where numba asks nobody
        but its managers."""
        device = getattr(self.context.device, "_dev", None)
        if Resource is None or device is None:
            return False
        resource = Resource(self, int(device.device_id))
        device.memory_resource = resource
        return resource

    def block(self, size):
        """A moiety.Block of device memory, of the pool as it is now."""
        return alloc(self.generation.pool(), size)

    def memalloc(self, size):
        """Device memory of the pool."""
        block = self.block(size)
        return DeviceMemory(weakref.proxy(self.context), size, block)

    def memhostalloc(self, size, mapped=False, portable=False, wc=False):
        """Pinned memory next to the device, from an arena. It is always mapped,
        and pinned for all contexts."""
        block = alloc(self.generation.arena(bool(wc)), size)
        return self._host_memory(block.address, size, mapped, None,
                                 functools.partial(free_block, block))

    def mempin(self, owner, pointer, size, mapped=False):
        """Pins memory of the program's own, counted: the same array may be
        pinned several times, and its neighbours too."""
        generation, key = self.generation, object()
        _native.pin(pointer, size)
        generation.pins[key] = (pointer, size, owner)
        release = functools.partial(generation.free_pinned, key, self._cleanup)
        try:
            return self._host_memory(pointer, size, mapped, owner, release)
        except Exception:
            release()
            raise

    def memallocmanaged(self, size, attach_global=True):
        """Managed memory is the driver's own: it moves by itself, so that no
        pool could say where it is."""
        generation, key = self.generation, object()
        pointer = FAMILY.alloc_managed(size, attach_global)
        generation.managed[key] = pointer
        release = functools.partial(generation.free_managed, key, self._cleanup)
        return self._owned(numba_driver.ManagedMemory, pointer, size, None,
                           release)

    def _host_memory(self, address, size, mapped, owner, release):
        pointer = FAMILY.host_pointer(address)
        if mapped:
            return self._owned(cuda.MappedMemory, pointer, size, owner, release)
        return cuda.PinnedMemory(weakref.proxy(self.context), pointer, size,
                                 owner=owner, finalizer=release)

    def _owned(self, kind, pointer, size, owner, release):
        """Memory that numba counts the references of, through proxies: somebody
        has to hold it until the last one goes. Its finalizer does."""
        held = []

        def finalizer():
            held.clear()
            release()

        memory = kind(weakref.proxy(self.context), pointer, size, owner=owner,
                      finalizer=finalizer)
        held.append(memory)
        return memory.own()

    def get_memory_info(self):
        """What the driver has free, within the pool's limit, and what the pool
        has from it and nobody uses: an allocation may get either, but no more
        in one piece than the larger of the two. The total is the device's."""
        free, total = FAMILY.memory_info()
        return cuda.MemoryInfo(self.generation.free_bytes(free), total)

    def get_ipc_handle(self, memory):
        """The driver's handle of the segment that the array lies in, and the
        offset of the array. From now on the pool keeps the segment, and the
        block even when it is freed, until release_exports(): peers may have
        it. Memory of others is left to the driver."""
        exported = self.generation.export(memory.device_pointer_value or 0)
        if exported is None:
            theirs = super().get_ipc_handle(memory)
            return ipc.make(memory, FAMILY.ipc_bytes(theirs.handle),
                            theirs.source_info, theirs.offset)
        version, _, handle_bytes, _, offset = IPC_HANDLE.unpack_from(exported)
        if version != IPC_VERSION:
            raise RuntimeError(f"a handle of version {version}: this plugin "
                               f"and the library are not of one release")
        return ipc.make(memory, handle_bytes,
                        self.context.device.get_device_identity(), offset)

    def reset(self):
        """Ends all device memory of the context, as numba's own manager does.
        Pinned arrays stay until they are dropped."""
        self.initialize()
        old, self._generation = self.generation, self._new_generation()
        unclosed = old.end()
        if unclosed is not None:
            self._unclosed.append(unclosed)

    def defer_cleanup(self):
        """Puts off what may stall the device: unpinning, freeing managed
        memory, trim(). Blocks go to the pool at once: that never waits."""
        return self._cleanup.deferred()

    def trim(self, keep_bytes=0):
        """See moiety.numba.trim()."""
        given_back = []
        self._cleanup.call(trim_quietly, self.generation, keep_bytes,
                           given_back)
        return sum(given_back)
