# SPDX-License-Identifier: Apache-2.0
"""What is installed beside Binade."""

from importlib import metadata


def versions(names):
    """Of the packages that are there, by name, in the order of `names`."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found
