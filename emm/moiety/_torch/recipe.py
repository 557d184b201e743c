# SPDX-License-Identifier: Apache-2.0
"""What the library that is PyTorch's allocator is made from, and the name of one
that a wheel brings, for the two that make it: build.py, and for wheels that are
handed out tests/torch/prebuilt.py. Imports nothing of the package."""

import hashlib

# Releases that the sources are known to compile for.
RELEASES = ("2.9", "2.10", "2.11")
# CUDA runtimes for which the same library serves, as prebuilt.py sees to.
CUDAS = ("12", "13")
FLAGS = ("-std=c++17", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden")


def macros(release):
    major, minor = release.split(".")[:2]
    return [f"-DMOIETY_TORCH_MAJOR={major}", f"-DMOIETY_TORCH_MINOR={minor}"]


def sources(folder):
    return sorted(folder.glob("*.cc"))


def digest(folder, *others):
    """Of all sources and headers, and of what else it depends on."""
    found = hashlib.sha256()
    for other in others:
        found.update(other.encode() + b"\0")
    for path in sorted(folder.rglob("*.[ch]*")):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def prebuilt_name(release, folder):
    """`release` as "2.11". One that other sources made has another name."""
    return f"libmoiety_torch-{release}-{digest(folder, release)}.so"
