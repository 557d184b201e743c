# SPDX-License-Identifier: Apache-2.0
from typing import Any, Literal

from moiety._native import Error

class BuildError(Error): ...

def enable(
    limit: int | None = None,
    memory: Literal["auto", "mapped", "driver"] = "auto",
    ipc: bool = False,
    exact_peaks: bool = False,
    reduced: bool | None = None,
) -> None: ...
def is_enabled() -> bool: ...
def MemPool(
    tenant: str | None = None,
    limit: int | None = None,
    fixed: bool = False,
    use_on_oom: bool = False,
) -> Any: ...  # a torch.cuda.MemPool, with pause() and resume()
