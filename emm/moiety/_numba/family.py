# SPDX-License-Identifier: Apache-2.0
"""What differs between the two ways in which numba talks to the driver.

numba-cuda has used cuda.bindings by default since 0.15, and nothing else since
0.21; numba's own CUDA target, and Debian's numba 0.56 with it, uses ctypes. The
two want other types for the same pointers and take results from the driver
differently. `FAMILY` is the one that the numba of this process uses.
"""

import ctypes
import inspect

from numba.cuda.cudadrv import driver as numba_driver

from moiety._numba import driver_handle

driver = numba_driver.driver

if "context" not in inspect.signature(numba_driver.MemoryPointer).parameters:
    raise ImportError("numba-cuda 0.21.0 and 0.21.1 make memory pointers "
                      "without a context, unlike all others: install another")

_ATTACH_GLOBAL, _ATTACH_HOST = 1, 2  # CUmemAttach_flags


def _attach_flags(attach_global):
    return _ATTACH_GLOBAL if attach_global else _ATTACH_HOST


class Bindings:
    """cuda.bindings: pointers of the device have a type, host pointers are
    integers, and the driver's functions return what they fetch."""

    @staticmethod
    def device_pointer(address):
        return numba_driver.binding.CUdeviceptr(address)

    @staticmethod
    def host_pointer(address):
        return address

    @staticmethod
    def context_address(context):
        return Bindings.pushable(context.handle)

    @staticmethod
    def pushable(context_handle):
        # numba-cuda 0.22 keeps a c_void_p of ctypes.
        return int(getattr(context_handle, "value", context_handle))

    @staticmethod
    def ipc_handle(handle_bytes):
        return driver_handle.make(numba_driver.binding.CUipcMemHandle,
                                  handle_bytes)

    @staticmethod
    def ipc_bytes(handle):
        return driver_handle.bytes_of(handle)

    @staticmethod
    def alloc_managed(size, attach_global):
        return driver.cuMemAllocManaged(size, _attach_flags(attach_global))

    @staticmethod
    def memory_info():
        free, total = driver.cuMemGetInfo()
        return free, total

    @staticmethod
    def out_of_memory_code():
        return numba_driver.binding.CUresult.CUDA_ERROR_OUT_OF_MEMORY


class Ctypes:
    """ctypes: numba reads `.value` of every pointer, and the driver's functions
    are given a place for what they fetch."""

    @staticmethod
    def device_pointer(address):
        return ctypes.c_size_t(address)

    @staticmethod
    def host_pointer(address):
        return ctypes.c_void_p(address)

    @staticmethod
    def context_address(context):
        return context.handle.value

    @staticmethod
    def pushable(context_handle):
        return context_handle

    @staticmethod
    def ipc_handle(handle_bytes):
        from numba.cuda.cudadrv import drvapi

        return drvapi.cu_ipc_mem_handle.from_buffer_copy(handle_bytes)

    @staticmethod
    def ipc_bytes(handle):
        return bytes(handle)

    @staticmethod
    def alloc_managed(size, attach_global):
        pointer = ctypes.c_size_t()
        driver.cuMemAllocManaged(ctypes.byref(pointer), size,
                                 _attach_flags(attach_global))
        return pointer

    @staticmethod
    def memory_info():
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        driver.cuMemGetInfo(ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    @staticmethod
    def out_of_memory_code():
        return 2  # CUDA_ERROR_OUT_OF_MEMORY


# numba-cuda from 0.21 on does not have the name any more.
FAMILY = Bindings if getattr(numba_driver, "USE_NV_BINDING", True) else Ctypes
