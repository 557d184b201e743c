# SPDX-License-Identifier: Apache-2.0
import os
from typing import Any, BinaryIO, Iterable

from moiety._native import Pool
from moiety._native import expose_start as start
from moiety._native import expose_stop as stop

__all__ = ["ExposeError", "prometheus", "snapshot", "start", "stats", "stop",
           "svg", "write_pickle"]

_Path = str | bytes | os.PathLike[str]

class ExposeError(Exception): ...

def stats(path: _Path, pool: int | None = None) -> dict[str, Any]: ...
def snapshot(source: _Path | Pool | Iterable[Pool],
             pool: int | None = None) -> dict[str, Any]: ...
def prometheus(answer: dict[str, Any]) -> str: ...
def svg(answer: dict[str, Any]) -> str: ...
def write_pickle(answer: dict[str, Any], file: BinaryIO) -> None: ...
