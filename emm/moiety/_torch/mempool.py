# SPDX-License-Identifier: Apache-2.0
"""torch.cuda.MemPool with memory of its own kind: fixed, or a tenant's."""

import ctypes
import functools

from moiety import _native
from moiety._native import Error

PAUSE_KEEP_CONTENTS = 1 << 0


class _MemPool(ctypes.Structure):
    """moiety_torch_mempool of moiety/stacks/torch.h."""
    _fields_ = [("struct_size", ctypes.c_uint32), ("device", ctypes.c_int32),
                ("id", ctypes.c_uint64 * 2), ("limit_bytes", ctypes.c_uint64),
                ("tenant_name", ctypes.c_char_p)]


@functools.cache
def _last_message():
    """moiety_last_error_message(), of the library that the package has loaded."""
    function = ctypes.CDLL(_native.__file__).moiety_last_error_message
    function.restype = ctypes.c_char_p
    return function


def call(function, *arguments):
    """Error, in the words of the library, where it fails."""
    if function(*arguments):
        raise Error(_last_message()().decode(errors="replace"))


@functools.cache
def class_of(torch, library):
    """PyTorch is imported by then, and never before."""

    class MemPool(torch.cuda.MemPool):
        """See moiety.torch.pausable_pool() and fixed_pool()."""

        def __init__(self, tenant, limit, **options):
            device = torch.cuda.current_device()
            super().__init__(**options)
            self._wanted = _MemPool(ctypes.sizeof(_MemPool), device,
                                    (ctypes.c_uint64 * 2)(*self.id), limit,
                                    tenant)
            call(library.moiety_torch_mempool_set, ctypes.byref(self._wanted))

        def pause(self, keep_contents=False):
            """Gives the device memory back to the driver and keeps the addresses.
            No work that uses it may be queued before resume(), graphs included.
            Without keep_contents what is in the tensors is undefined then."""
            call(library.moiety_torch_mempool_pause, ctypes.byref(self._wanted),
                 ctypes.c_uint32(PAUSE_KEEP_CONTENTS if keep_contents else 0))

        def resume(self):
            """Takes memory again, at the same addresses."""
            call(library.moiety_torch_mempool_resume,
                 ctypes.byref(self._wanted))

    return MemPool
