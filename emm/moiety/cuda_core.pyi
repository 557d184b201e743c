# SPDX-License-Identifier: Apache-2.0
from typing import Any

from moiety import _native
from moiety._pools.pools import Pools

__all__ = ["MemoryResource", "PinnedMemoryResource"]

# Both are cuda.core.MemoryResource as well, which may not be installed where
# types are checked.

class MemoryResource:
    is_device_accessible: bool
    is_host_accessible: bool
    is_managed: bool
    def __init__(self, device: Any = None,
                 pool: _native.Pool | Pools | _native.Tenant | None = None
                 ) -> None: ...
    def allocate(self, size: int, *, stream: Any) -> Any: ...
    def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None: ...
    @property
    def device_id(self) -> int: ...
    @property
    def pool(self) -> _native.Pool: ...

class PinnedMemoryResource:
    is_device_accessible: bool
    is_host_accessible: bool
    is_managed: bool
    device_id: int
    def __init__(self, arena: _native.HostArena | None = None) -> None: ...
    def allocate(self, size: int, *, stream: Any) -> Any: ...
    def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None: ...
    @property
    def arena(self) -> _native.HostArena: ...
