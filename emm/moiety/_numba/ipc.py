# SPDX-License-Identifier: Apache-2.0
"""numba's IpcHandle, also where numba cannot pickle it.

numba-cuda 0.30 pickles a handle by its `reserved`, which cuda-bindings 13.4
does not have any more. Where numba's own class fails, ours is made; whoever
unpickles it needs Moiety. Elsewhere it is numba's, and nobody needs us.
"""

import functools
import pickle

from numba.cuda.cudadrv import driver as numba_driver

from moiety._numba.driver_handle import HANDLE_BYTES, NotUnderstood
from moiety._numba.family import FAMILY


class IpcHandle(numba_driver.IpcHandle):
    """Pickled as its bytes, size, source and offset, as numba's is."""

    def __reduce__(self):
        return self._rebuild, (FAMILY.ipc_bytes(self.handle), self.size,
                               self.source_info, self.offset)

    @classmethod
    def _rebuild(cls, handle_bytes, size, source_info, offset):
        return cls(None, FAMILY.ipc_handle(handle_bytes), size, source_info,
                   offset)


def _no_handle():
    return FAMILY.ipc_handle(bytes(HANDLE_BYTES))


@functools.cache
def numba_pickles(handle_kind):
    """Whether numba's own class goes through a pickle with such handles."""
    handle = numba_driver.IpcHandle(None, handle_kind(), 0)
    try:
        pickle.loads(pickle.dumps(handle))
    except AttributeError:
        return False
    return True


def make(memory, handle_bytes, source_info, offset):
    """A handle of numba's memory that goes through a pickle."""
    handle = FAMILY.ipc_handle(handle_bytes)
    kind = (numba_driver.IpcHandle if numba_pickles(type(handle))
            else IpcHandle)
    return kind(memory, handle, memory.size, source_info, offset)


def who_pickles():
    """Moiety, or numba, whose handles anybody with numba opens."""
    return "numba" if numba_pickles(type(_no_handle())) else "Moiety"


def why_not():
    """Why get_ipc_handle() cannot work with this cuda.bindings, or ""."""
    try:
        _no_handle()
    except NotUnderstood as error:
        return str(error)
    return ""
