# SPDX-License-Identifier: Apache-2.0
"""Calls of the driver that Moiety uses, for what no library here does: copies of
whole blocks, and contexts."""

import contextlib
import ctypes
import functools

from moiety._native import _error_for, probe

_ADDRESS, _SIZE = ctypes.c_uint64, ctypes.c_size_t
_FUNCTIONS = {
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_int),
    "cuDevicePrimaryCtxRelease_v2": (ctypes.c_int,),
    "cuCtxPushCurrent_v2": (ctypes.c_void_p,),
    "cuCtxPopCurrent_v2": (ctypes.POINTER(ctypes.c_void_p),),
    "cuCtxSynchronize": (),
    "cuMemcpyDtoH_v2": (_ADDRESS, _ADDRESS, _SIZE),
    "cuMemcpyHtoD_v2": (_ADDRESS, _ADDRESS, _SIZE),
}


@functools.cache
def _driver():
    driver = ctypes.CDLL(probe(0)["library_path"])
    for name, types in _FUNCTIONS.items():
        getattr(driver, name).argtypes = types
    return driver


def call(name, *arguments):
    """Raises DriverError if the function does not succeed."""
    status = getattr(_driver(), name)(*arguments)
    if status:
        raise _error_for("E_DRIVER", f"{name}() returned {status}")


def retain_primary(device):
    """Returns the primary context of a device, for release_primary()."""
    context = ctypes.c_void_p()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    return context.value


def release_primary(device):
    call("cuDevicePrimaryCtxRelease_v2", device)


@contextlib.contextmanager
def primary_context(device):
    """The device's primary context is the thread's current one meanwhile."""
    context = ctypes.c_void_p(retain_primary(device))
    try:
        call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            call("cuCtxPopCurrent_v2", ctypes.byref(context))
    finally:
        release_primary(device)
