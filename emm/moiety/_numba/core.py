# SPDX-License-Identifier: Apache-2.0
"""Memory of the pool for cuda.core, which numba-cuda asks for what a kernel's
NumPy arguments are copied to, instead of its memory manager, since 0.25.

numba-cuda may be without cuda.core (before 0.21): then there is no `Resource`.
"""

import weakref

try:
    from cuda.core import Buffer, MemoryResource
except ImportError:
    Resource = None
else:

    class Resource(MemoryResource):
        """Blocks of the pool of one of numba's managers, freed with ANY when
        their buffer goes. Threads: any."""

        is_device_accessible = True
        is_host_accessible = False
        is_managed = False

        def __init__(self, manager, device_id):
            # The device keeps this longer than numba keeps the manager.
            self._manager = weakref.ref(manager)
            self._device_id = device_id

        @property
        def device_id(self):
            return self._device_id

        def allocate(self, size, stream=None):
            """A buffer of `size` bytes, for use on any stream."""
            manager = self._manager()
            if manager is None:
                raise RuntimeError("numba's context was closed, and its memory "
                                   "manager with it: use numba first")
            block = manager.block(size)
            return Buffer.from_handle(block.address, size, owner=block)

        def deallocate(self, ptr, size, stream=None):
            """Never called: the block that a buffer owns frees itself."""
            raise NotImplementedError
