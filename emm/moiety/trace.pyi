# SPDX-License-Identifier: Apache-2.0
import os
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, Callable, Iterator, NamedTuple

__all__ = ["Operation", "Reader", "TraceError", "Writer", "create", "read"]

class TraceError(ValueError):
    line: int | None
    offset: int | None
    def __init__(self, message: str, *, line: int | None = None,
                 offset: int | None = None) -> None: ...

class Operation(NamedTuple):
    kind: str
    time_ns: int
    thread: str
    id: int | None = None
    size_bytes: int | None = None
    stream: int | None = None
    tag: str | None = None

class Reader:
    info: dict[str, str]
    threads: list[str]
    streams: list[int]
    tags: list[str]
    time_ns: int
    operation_count: int
    live: Any
    @property
    def line(self) -> int: ...
    def __init__(self, file: BinaryIO, is_checked: bool = True) -> None: ...
    def __iter__(self) -> Iterator[Operation]: ...

class Writer:
    operation_count: int
    live: Any
    def __init__(self, file: BinaryIO) -> None: ...
    def info(self, key: str, value: str) -> None: ...
    def write(self, operation: Operation) -> None: ...
    def end(self) -> None: ...

def read(path: str | os.PathLike[str],
         watch: Callable[[int, int], object] | None = None
         ) -> AbstractContextManager[Reader]: ...
def create(path: str | os.PathLike[str]) -> AbstractContextManager[Writer]: ...
