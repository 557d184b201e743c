# SPDX-License-Identifier: Apache-2.0
"""A memory manager for numba that hands freed memory out again at once, as a
pool does that is told no stream and does not ask the driver: for comparison.

It is for one thread, and gives nothing back.
"""

import contextlib
import functools
import weakref

from numba import cuda

from moiety._numba.family import FAMILY, driver


class Immediate(cuda.HostOnlyCUDAMemoryManager):
    """Lists of freed addresses, one for each size."""

    interface_version = 1

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._freed = {}

    def memalloc(self, size):
        freed = self._freed.setdefault(size, [])
        address = freed.pop() if freed else int(driver.cuMemAlloc(size))
        return cuda.MemoryPointer(
            weakref.proxy(self.context), FAMILY.device_pointer(address), size,
            finalizer=functools.partial(freed.append, address))

    def initialize(self):
        pass

    def get_memory_info(self):
        return cuda.MemoryInfo(*FAMILY.memory_info())

    def get_ipc_handle(self, memory):
        raise NotImplementedError

    @contextlib.contextmanager
    def defer_cleanup(self):
        yield
