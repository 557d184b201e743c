# SPDX-License-Identifier: Apache-2.0
"""What MoietySetup is given, checked where it is made: it travels to the
workers as it is."""

import operator
import re

from moiety.dask import _libraries

_ORDERS = {"": 0, "K": 10, "M": 20, "G": 30, "KiB": 10, "MiB": 20, "GiB": 30}
_SIZE = re.compile(r"(\d+)(|[KMG](?:iB)?)")


def bytes_of(name, size):
    """An integer, or text as MOIETY_CONF takes it; None: None."""
    if size is None:
        return None
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        if not match:
            raise ValueError(f"{name} is {size!r}; accepted are bytes, which "
                             f"may end in K, M, G, KiB, MiB or GiB")
        size = int(match[1]) << _ORDERS[match[2]]
    size = operator.index(size)
    if size <= 0:
        raise ValueError(f"{name} is {size}; accepted are bytes above 0, or "
                         f"None")
    return size


def libraries_of(names):
    """Each once, in the order that they are named in."""
    if isinstance(names, str):
        raise ValueError(f"libraries is {names!r}; accepted is a list of names")
    names = tuple(dict.fromkeys(names))
    for name in names:
        if name not in _libraries.NAMES:
            raise ValueError(f"libraries has {name!r}; accepted are "
                             f"{', '.join(_libraries.NAMES)}")
    return names


class Settings:
    """Of a MoietySetup."""

    def __init__(self, limit, libraries, budget, options):
        self.limit_bytes = bytes_of("limit", limit)
        self.libraries = libraries_of(libraries)
        self.budget_bytes = bytes_of("budget", budget)
        self.options = options
        for name in ("limit_bytes", "devices"):
            if name in options:
                raise TypeError(f"{name} is no option of MoietySetup")
        if self.budget_bytes and "numba" in self.libraries:
            raise ValueError("numba takes memory of no tenant: leave it out of "
                             "libraries, or name no budget")

    def __str__(self):
        said = [f"limit {self.limit_bytes or 'of the device'}"]
        if self.budget_bytes:
            said.append(f"budget {self.budget_bytes}")
        if self.libraries:
            said.append(f"libraries {', '.join(self.libraries)}")
        return ", ".join(said)
