# SPDX-License-Identifier: Apache-2.0
"""CUipcMemHandle of cuda.bindings in both of its shapes, whichever version is
installed: with `reserved`, as up to 13.3, and opaque, as from 13.4 on."""

import ctypes

import pytest
from numba_support import cuda  # noqa: F401, numba after its settings

from numba.cuda.cudadrv import driver as numba_driver

SHAPES = ["readable", "opaque"]


def _refused(*_):
    raise AttributeError("reserved")


def _read(handle):
    return ctypes.string_at(int(handle.getPtr()), 64)


def _write(handle, data):
    ctypes.memmove(int(handle.getPtr()), bytes(data), 64)


def shaped(shape):
    """A type that the driver's functions take. One that is not as installed is
    made of what is."""
    kind = numba_driver.binding.CUipcMemHandle
    if hasattr(kind, "reserved") == (shape == "readable"):
        return kind
    reserved = (property(_read, _write) if shape == "readable"
                else property(_refused, _refused))
    meta = type("Meta", (type,), {"reserved": property(_refused)})
    return (meta if shape == "opaque" else type)(
        kind.__name__, (kind,), {"reserved": reserved})


def use_shape(shape, patch=None):
    """From now on, or until the patch is undone."""
    (patch or pytest.MonkeyPatch()).setattr(
        numba_driver.binding, "CUipcMemHandle", shaped(shape))


def are_opaque():
    return not hasattr(numba_driver.binding.CUipcMemHandle, "reserved")
