# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterable
from typing import Any

from moiety import _native

__all__ = ["MoietySetup", "dask_setup", "memory"]

class MoietySetup:
    name: str
    def __init__(self, limit: int | str | None = None, *,
                 libraries: Iterable[str] = (),
                 budget: int | str | None = None, **options: Any) -> None: ...
    def setup(self, worker: Any) -> None: ...
    def teardown(self, worker: Any) -> None: ...

def memory() -> _native.Pool | _native.Tenant: ...

dask_setup: Any  # a click.Command, for --preload
