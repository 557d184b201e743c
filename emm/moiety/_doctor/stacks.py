# SPDX-License-Identifier: Apache-2.0
"""A check of `moiety doctor`: which of the libraries that allocate on a GPU are
installed, whose memory each of them takes in a program that says nothing, and
whether Moiety can give it its own."""

from dataclasses import dataclass

from moiety._doctor import packages
from moiety._doctor.machine import LACKING, OK, Finding, installed_versions

# Prints whose memory it is; nothing where CUDA's runtime has to start for that,
# and does not. No context is made.
_ALLOCATOR = """\
import contextlib, importlib, sys
if sys.argv[1]:
    importlib.import_module(sys.argv[1])
with contextlib.suppress(Exception):
    exec(sys.argv[2])
    if isinstance(found, str):
        print(found, end="")
    else:
        found = type(getattr(found, "__self__", found))
        print(f"{found.__module__}.{found.__qualname__}", end="")
"""


@dataclass(frozen=True)
class Library:
    name: str
    package: str  # that is imported
    distributions: tuple  # of pip, of which one has it
    adapter: str  # "": none that can be imported by itself
    found: str  # statements that set it
    remedy: str


LIBRARIES = (
    Library("CuPy", "cupy", ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
            "moiety.cupy",
            "from cupy.cuda import memory; found = memory.get_allocator()",
            "moiety.cupy.enable()"),
    Library("cuda.core", "cuda.core", ("cuda-core",), "moiety.cuda_core",
            "found = 'the driver'",
            "device.memory_resource = moiety.cuda_core.MemoryResource()"),
    Library("RMM", "rmm", ("rmm-cu13", "rmm-cu12"), "moiety.rmm",
            "import rmm.mr; found = rmm.mr.get_per_device_resource(0)",
            "moiety.rmm.enable()"),
    Library("ONNX Runtime", "onnxruntime", ("onnxruntime-gpu", "onnxruntime"),
            "moiety.onnxruntime",
            "import onnxruntime; found = ('its own arena "
            "(moiety.onnxruntime.provider_options() changes it)' if "
            "'CUDAExecutionProvider' in onnxruntime.get_available_providers() "
            "else 'no device, as it has no CUDA')", ""),
    Library("numba", "numba", ("numba-cuda", "numba"), "moiety.numba",
            "import os; found = os.environ.get('NUMBA_CUDA_MEMORY_MANAGER') "
            "or 'the driver'",
            "NUMBA_CUDA_MEMORY_MANAGER=moiety.numba"),
    Library("PyTorch", "torch", ("torch",), "",
            "import torch; found = torch.cuda.get_allocator_backend()",
            ""),
)


def _about(library):
    """What is said of one, and whether its adapter can be used."""
    if not packages.is_installed(library.package):
        return f"{library.name} is not installed", True
    versions = installed_versions(library.distributions)
    version = next(iter(versions.values()), "of unknown version")
    what = f"{library.name} {version}"
    allocator, failure = packages.in_child(_ALLOCATOR, library.adapter,
                                      library.found)
    if failure:
        return (f"{what}: {library.adapter or library.package} cannot be "
                f"used: {failure}"), False
    says = f"memory of {allocator or 'an unknown allocator'}"
    remedy = f" ({library.remedy} changes it)" if library.remedy else ""
    return f"{what} takes {says}{remedy}", True


def allocators(_machine):
    """One finding for all: it is about who shares with whom."""
    said = [_about(library) for library in LIBRARIES]
    are_fine = all(is_fine for _, is_fine in said)
    return Finding(
        "allocators", OK if are_fine else LACKING,
        "; ".join(text for text, _ in said),
        "" if are_fine else "docs/install.md has the versions")
