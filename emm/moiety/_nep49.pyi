# SPDX-License-Identifier: Apache-2.0
"""The C module under moiety.numpy: needs NumPy 1.22 or newer."""
from typing import Any, Callable, Final

FUNCTIONS: Final[dict[str, int]]
PINNED_BYTES_MIN: Final[int]

def handler(arena: Any, name: str, /) -> Any:
    """The handler of an arena, given as the capsule that _native._capsule_of()
    returns, which it keeps open. ValueError: the name is longer than 126 bytes, or `arena` is no
    such capsule."""
def context(handler: Any, /) -> int: ...
def set_handler(handler: Any, /) -> Any: ...
def get_handler() -> Any: ...
def empty(alloc: Callable[[int], Any],
          show: Callable[[Any], int], shape: Any, dtype: Any,
          is_fortran: bool, is_zeroed: bool, /) -> Any: ...
