# SPDX-License-Identifier: Apache-2.0
"""The bytes of a CUipcMemHandle of cuda.bindings, in both of its shapes.

Up to 13.3 it has them as `reserved`, which numba-cuda and programs read and
write. From 13.4 on it is opaque: nothing but the address of its bytes is left,
which older versions have too.
"""

import ctypes
import functools

HANDLE_BYTES = 64  # CU_IPC_HANDLE_SIZE, part of the driver's ABI


class NotUnderstood(RuntimeError):
    """cuda.bindings has a shape of handles that is neither of the two."""


def bytes_of(handle):
    """The bytes that make a handle of the driver's."""
    return ctypes.string_at(_address(handle), HANDLE_BYTES)


def _fill(handle, data):
    data = bytes(data)
    if len(data) != HANDLE_BYTES:
        raise ValueError(f"a handle of {len(data)} bytes instead of "
                         f"{HANDLE_BYTES}")
    ctypes.memmove(_address(handle), data, HANDLE_BYTES)


def _address(handle):
    address = int(getattr(handle, "getPtr", int)())
    if not address:
        raise NotUnderstood(
            f"{type(handle).__module__}.{type(handle).__name__} does not say "
            f"where its bytes are: this version of cuda-bindings is unknown")
    return address


@functools.cache
def _readable(kind):
    """The same type with `reserved`, for those who look there."""
    if hasattr(kind, "reserved"):
        return kind
    return type(kind.__name__, (kind,), {"reserved": property(bytes_of, _fill)})


def make(kind, data):
    """A handle, of the type that cuda.bindings has for it, with these bytes."""
    handle = _readable(kind)()
    _fill(handle, data)
    return handle
