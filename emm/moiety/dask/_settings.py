# SPDX-License-Identifier: Apache-2.0
"""What MoietySetup is given, checked where it is made: it travels to the
workers as it is."""

from moiety import _native
from moiety.dask import _libraries


def bytes_of(name, size):
    """An integer or text; None: None."""
    if size is None:
        return None
    found = _native._bytes_of(name, size)
    if not found:
        raise ValueError(f"{name} is {size!r}; accepted are bytes above 0, or "
                         f"None")
    return found


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
        self.limit = bytes_of("limit", limit)
        self.libraries = libraries_of(libraries)
        self.budget = bytes_of("budget", budget)
        self.options = options
        for name in ("devices", "pools"):
            if name in options:
                raise TypeError(f"{name} is no option of MoietySetup")
        if self.budget and "numba" in self.libraries:
            raise ValueError("numba takes memory of no tenant: leave it out of "
                             "libraries, or name no budget")

    def __str__(self):
        said = [f"limit {self.limit or 'of the device'}"]
        if self.budget:
            said.append(f"budget {self.budget}")
        if self.libraries:
            said.append(f"libraries {', '.join(self.libraries)}")
        return ", ".join(said)
