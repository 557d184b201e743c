# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterable
from typing import Any

from moiety import _native
from moiety._pools.pools import Pools

__all__ = ["MemoryResource", "enable"]

class MemoryResource:
    """An rmm.mr.DeviceMemoryResource as well, which may not be installed where
    types are checked."""
    pool: _native.Pool
    def __init__(self, device: int | None = None,
                 pool: _native.Pool | Pools | _native.Tenant | None = None
                 ) -> None: ...
    def allocate(self, nbytes: int, stream: Any = ...) -> int: ...
    def deallocate(self, ptr: int, nbytes: int, stream: Any = ...) -> None: ...

def enable(pool: _native.Pool | Pools | _native.Tenant | None = None, *,
           limit: int | str | None = None, devices: int | Iterable[int] = 0
           ) -> dict[int, MemoryResource]: ...
