# SPDX-License-Identifier: Apache-2.0
"""A throw-away memory manager for numba on top of libbinade.so: it shows the C
interface from outside, and is not the one for users.

NUMBA_CUDA_MEMORY_MANAGER=binade_plugin selects it. numba does not say which
stream uses an array, so every block is taken and freed with BINADE_STREAM_ANY.
A context has one pool at a time, until reset(), which ends its arrays with it.
A free never waits, so there is nothing for defer_cleanup() to defer.
"""

import ctypes
import weakref
from ctypes import byref, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

from cuda.bindings.driver import CUdeviceptr
from numba import cuda
from numba.cuda.cudadrv.driver import driver

STREAM_ANY = c_void_p(-1)
SIGNATURES = {
    "binade_pool_create": (c_void_p, c_void_p),
    "binade_pool_destroy": (c_void_p, c_void_p),
    "binade_pool_stats": (c_void_p, c_void_p),
    "binade_alloc": (c_void_p, c_size_t, c_void_p, c_void_p),
    "binade_free": (c_void_p, c_uint64, c_void_p),
}


class Options(ctypes.Structure):  # binade_pool_options
    _fields_ = (
        ("struct_size", c_uint32), ("flags", c_uint32), ("device", c_int32),
        ("wait_ms", c_uint32), ("context", c_void_p), ("source", c_void_p),
        ("limit_bytes", c_uint64), ("first_segment_bytes", c_uint64),
        ("largest_segment_bytes", c_uint64), ("thread_cache_bytes", c_uint64),
        ("cache_bytes", c_uint64))


def check(status, function, _arguments):
    if status:
        said = binade.binade_last_error_message().decode()
        raise RuntimeError(f"{function.__name__}: status {status}: {said}")


assert ctypes.sizeof(Options) == 72  # as in C
binade = ctypes.CDLL("libbinade.so.0")
binade.binade_last_error_message.restype = ctypes.c_char_p
binade.binade_stats_entry.restype = ctypes.c_char_p
for name, types in SIGNATURES.items():
    getattr(binade, name).argtypes = types
    getattr(binade, name).errcheck = check


def stats_of(pool):
    """By key; the buffer has room for the keys of later versions."""
    stats, value, found = (c_uint64 * 256)(), c_uint64(), {}
    stats[0] = ctypes.sizeof(stats)  # the lower half is struct_size
    binade.binade_pool_stats(pool, stats)
    while key := binade.binade_stats_entry(stats, len(found), byref(value)):
        found[key.decode()] = value.value
    return found


class Manager(cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager):
    interface_version = 1
    served = 0  # by all pools that are gone
    pool = c_void_p()

    def initialize(self):
        if not self.pool:
            options = Options(72, 0, 0, 1000, int(self.context.handle), None,
                              0, 64 << 20, 1 << 30, 64 << 20, 0)
            self.pool = c_void_p()
            binade.binade_pool_create(byref(options), byref(self.pool))

    def memalloc(self, size):
        pool, address = self.pool, c_uint64()
        binade.binade_alloc(pool, size, STREAM_ANY, byref(address))

        def give_back():
            if self.pool is pool:  # otherwise the block went with its pool
                binade.binade_free(pool, address, STREAM_ANY)

        return cuda.MemoryPointer(weakref.proxy(self.context),
                                  CUdeviceptr(address.value), size, None,
                                  give_back)

    def reset(self):
        super().reset()
        pool, self.pool = self.pool, c_void_p()
        if pool:
            Manager.served += stats_of(pool)["allocation.all.allocated"]
            binade.binade_pool_destroy(pool, None)

    def get_memory_info(self):
        return cuda.MemoryInfo(*driver.cuMemGetInfo())


_numba_memory_manager = Manager
