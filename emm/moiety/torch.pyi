# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from moiety._native import Error
from moiety.regions import Keeper

__all__ = ["BuildError", "Peak", "enable", "fixed_pool", "is_enabled", "load_once",
           "pausable_pool", "peak"]

class BuildError(Error): ...

class Peak(NamedTuple):
    result: Any
    before: int
    most: int
    after: int
    reserved: int

def enable(
    limit: int | str | None = None,
    memory: Literal["auto", "mapped", "driver"] = "auto",
    ipc: bool = False,
    exact_peaks: bool = False,
    reduced: bool | None = None,
    pinned: bool = False,
) -> None: ...
def is_enabled() -> bool: ...

# Each is a torch.cuda.MemPool, the first with pause() and resume().
def pausable_pool(name: str, *, limit: int | str | None = None,
                  use_on_oom: bool = False) -> Any: ...
def fixed_pool(*, limit: int | str | None = None,
               use_on_oom: bool = False) -> Any: ...

# Returns a torch.nn.Module.
def load_once(keeper: Keeper, name: str, load: Callable[[], Any], *,
              skeleton: Callable[[], Any] | None = None, key: str = "",
              device: Any = None, limit_s: float | None = None) -> Any: ...
def peak(step: Callable[[], Any], device: Any = None) -> Peak: ...
