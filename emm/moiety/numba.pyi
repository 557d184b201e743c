# SPDX-License-Identifier: Apache-2.0
from typing import Any

from moiety import _native
from moiety._pools.pools import Pools

__all__ = ["Manager", "OutOfMemoryError", "arena", "enable", "pool",
           "release_exports", "trim"]

class OutOfMemoryError(_native.OutOfMemoryError):
    """Numba's CudaAPIError as well."""
    def __init__(self, code: int, msg: str) -> None: ...

class Manager:
    """What numba takes for its memory manager."""
    pool_options: dict[str, Any]
    source: Pools | _native.Pool | None
    def trim(self, keep_bytes: int = 0) -> int: ...

def enable(pools: Pools | _native.Pool | None = None,
           **pool_options: Any) -> None: ...
def pool() -> _native.Pool: ...
def arena(write_combined: bool = False) -> _native.HostArena: ...
def trim(keep_bytes: int = 0) -> int: ...
def release_exports() -> None: ...
