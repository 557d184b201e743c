# SPDX-License-Identifier: Apache-2.0
import os
from types import TracebackType
from typing import Any, Iterable, Mapping, NamedTuple

__all__ = ["Entry", "Keeper", "Part", "Region", "connect"]

_Path = str | bytes | os.PathLike[str]

class Entry(NamedTuple):
    name: str
    state: str
    generation: int
    nbytes: int
    layout_bytes: int
    parts: int
    holders: int
    writer: int | None
    pids: tuple[int, ...]

class Part:
    device: int
    address: int
    nbytes: int
    @property
    def is_readonly(self) -> bool: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(self, *, stream: Any = None,
                   max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None,
                   copy: bool | None = None) -> Any: ...

class Region:
    name: str
    generation: int
    layout: bytes | None
    parts: dict[int, Part]
    is_writer: bool
    @property
    def is_open(self) -> bool: ...
    def commit(self, layout: bytes | bytearray | memoryview | None = None
               ) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Region: ...
    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 trace: TracebackType | None) -> None: ...

class Keeper:
    path: str
    def create(self, name: str | bytes, sizes: Mapping[int, int | str], *,
               handle_nbytes: int | str = 0) -> Region: ...
    def open(self, name: str | bytes, devices: Iterable[int] = (0,), *,
             write: bool = False) -> Region: ...
    def drop(self, name: str | bytes) -> None: ...
    def entries(self) -> list[Entry]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Keeper: ...
    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 trace: TracebackType | None) -> None: ...

def connect(path: _Path) -> Keeper: ...
