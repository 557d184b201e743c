# SPDX-License-Identifier: Apache-2.0
"""Whether a tensor is in memory of Moiety: moiety.pool_of() finds no arenas."""

import ctypes
import pathlib

import moiety

_LIBRARY = ctypes.CDLL(str(next(
    pathlib.Path(moiety.__file__).parent.glob("libmoiety.so*"))))


def is_ours(tensor):
    pool = ctypes.c_void_p()
    return _LIBRARY.moiety_pool_of(
        ctypes.c_uint64(tensor.data_ptr()), ctypes.byref(pool)) == 0
