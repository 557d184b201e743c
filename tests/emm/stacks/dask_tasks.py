# SPDX-License-Identifier: Apache-2.0
"""What the workers of dask_test.py do: tasks, and what is asked of a process."""

import ctypes
import gc
import os

import moiety
import moiety.dask

MIB = 1 << 20

_kept = []


def driver():
    return ctypes.CDLL(os.environ.get("MOIETY_DRIVER", "libcuda.so.1"))


def call(name, *arguments):
    library, context = driver(), ctypes.c_void_p()
    assert library.cuInit(0) == 0
    assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert library.cuCtxPushCurrent_v2(context) == 0
    assert getattr(library, name)(*arguments) == 0
    assert library.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
    assert library.cuDevicePrimaryCtxRelease_v2(0) == 0


def write(address, data):
    call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data,
         ctypes.c_size_t(len(data)))


def read(address, nbytes):
    data = ctypes.create_string_buffer(nbytes)
    call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address),
         ctypes.c_size_t(nbytes))
    return data.raw


class Holder:
    """An object of the program's, with a block in it."""

    def __init__(self, block):
        self.block = block


def limit():
    """Of the pool that a program gets without a word about it."""
    return moiety.pools()[0].limit


def pid_and_limit():
    return os.getpid(), limit()


def used():
    gc.collect()  # an exception keeps the variables of its task
    return moiety.pools().used_bytes


def taken():
    """Bytes that the driver has given to this process."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return total.value - free.value


def make(data):
    """A block of the worker's, with these bytes."""
    block = moiety.dask.memory().alloc(len(data))
    if data:
        write(block.address, data)
    return block


def make_filled(nbytes, byte):
    return make(bytes([byte]) * nbytes)


def make_host(data):
    block = moiety.HostArena().alloc(len(data))
    ctypes.memmove(block.address, data, len(data))
    return block


def take(block):
    """Which process this is, whether the block is of its pool, and its
    bytes."""
    is_own = block.pool is moiety.pools()[0]
    data = read(block.address, len(block)) if len(block) else b""
    return os.getpid(), is_own, data


def take_host(block):
    return os.getpid(), bytes(block)


def take_held(holder):
    return take(holder.block)


def sizes(*blocks):
    return [len(block) for block in blocks]


def tenant():
    memory = moiety.dask.memory()
    return memory.name, memory.budget


def share(data):
    """A handle of what stays here, until drop()."""
    import moiety.ipc

    block = make(data)
    handle = moiety.ipc.export(block)
    _kept[:] = [block, handle]
    return handle


def visit(handle):
    import moiety.ipc

    with moiety.ipc.open_handle(handle) as shared:
        data = read(shared.address, shared.nbytes)
    return os.getpid(), data, moiety.ipc.trim()


def drop():
    if _kept:
        _kept.pop().release()
    _kept.clear()


def numba_array(count):
    import numpy
    from numba import cuda

    return cuda.to_device(numpy.arange(count, dtype=numpy.float64))


def numba_sum(array):
    pool = moiety.pools()[0]
    return (os.getpid(), float(array.copy_to_host().sum()),
            pool.owns(array.__cuda_array_interface__["data"][0]))


def numpy_handler():
    import numpy
    from numpy._core.multiarray import get_handler_name

    return get_handler_name(numpy.empty(MIB))


async def numpy_handler_of_coroutine():
    return numpy_handler()


def core_is_ours():
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    buffer = device.allocate(1000, stream=device.create_stream())
    return moiety.pools()[0].owns(int(buffer.handle))


def install_fakes(*names):
    """CuPy or RMM, as far as that goes without a GPU."""
    import fake_frameworks

    for name in names:
        getattr(fake_frameworks, f"install_{name}")()


def remove_fakes():
    import sys

    for name in list(sys.modules):
        if name.startswith(("cupy", "rmm", "moiety.cupy", "moiety.rmm")):
            del sys.modules[name]


def allocators():
    """Whether CuPy's and RMM's memory is the pool's."""
    from cupy.cuda import memory
    from rmm import mr

    pool = moiety.pools()[0]
    if memory.get_allocator() is None:
        return None, type(mr.get_per_device_resource(0)).__module__
    pointer = memory.alloc(1000)
    resource = mr.get_per_device_resource(0)
    address = resource.allocate(1000)
    found = pool.owns(pointer.ptr), pool.owns(address)
    resource.deallocate(address, 1000)
    return found
