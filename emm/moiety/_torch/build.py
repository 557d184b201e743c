# SPDX-License-Identifier: Apache-2.0
"""The library that is PyTorch's allocator, for the release of PyTorch that is
installed: one that the wheel brings, or one that the machine's C++ compiler makes,
once, and that is kept in a folder of the user's."""

import ctypes
import fcntl
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from moiety._native import Error
from moiety._torch import recipe

PACKAGE = Path(__file__).resolve().parent.parent
SOURCES = PACKAGE / "_torch" / "csrc"
PREBUILT = PACKAGE / "_torch" / "prebuilt"
LIBRARY = "libmoiety_torch.so"
TIMEOUT_S = 600
# One that is handed out, whose interface is settled: no "2.11.0a0+git1".
FINAL_RELEASE = re.compile(r"(\d+\.\d+)\.\d+(\+.*)?")


class BuildError(Error):
    """The library for PyTorch cannot be made here. The text says what is missing."""


def prebuilt(torch):
    """The library that the wheel brings for this PyTorch; None: it brings none.
    MOIETY_TORCH_PREBUILT=0 in the environment wants none."""
    final = FINAL_RELEASE.fullmatch(torch.__version__)
    if not final or os.environ.get("MOIETY_TORCH_PREBUILT") == "0" or \
            torch.version.cuda.split(".")[0] not in recipe.CUDAS or \
            not torch._C._GLIBCXX_USE_CXX11_ABI:
        return None
    path = PREBUILT / recipe.prebuilt_name(final[1], SOURCES)
    return path if path.is_file() else None


def compiler():
    return shlex.split(os.environ.get("CXX", "c++"))


def cache_folder():
    """MOIETY_TORCH_CACHE, or moiety/torch in the user's folder of caches."""
    own = os.environ.get("MOIETY_TORCH_CACHE")
    if own:
        return Path(own)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "moiety" / "torch"


def header_folders(torch_folder):
    """Of the CUDA runtime: a toolkit's, or those of the packages that PyTorch's
    wheel brings. Some of these lack crt/host_defines.h, which others have."""
    site = torch_folder.parent
    places = [Path(os.environ[name]) / "include"
              for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places += [Path("/usr/local/cuda/include"),
               *sorted(site.glob("nvidia/cu[0-9]*/include"), reverse=True),
               site / "nvidia/cuda_runtime/include",
               site / "nvidia/cuda_nvcc/include",
               site / "triton/backends/nvidia/include"]
    found = []
    for header in ("cuda_runtime_api.h", "crt/host_defines.h"):
        folder = next((place for place in found + places
                       if (place / header).is_file()), None)
        if folder is None:
            raise BuildError(
                f"<{header}> of CUDA is in none of "
                f"{', '.join(map(str, places))}: install the CUDA Toolkit and "
                f"name it in CUDA_HOME, or `pip install nvidia-cuda-runtime "
                f"nvidia-cuda-crt`")
        if folder not in found:
            found.append(folder)
    return found


def sources():
    found = recipe.sources(SOURCES)
    if not found:
        raise BuildError(f"{SOURCES}: this package carries no sources for "
                         f"PyTorch")
    return found


def runtime():
    """The C++ library that this process has, as PyTorch has loaded it. It comes
    before a compiler's own, which may be one to link statically: two of them in
    a process do not share what each keeps for the other's objects."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = [line.split()[-1] for line in maps if "/libstdc++.so" in line]
    return paths[:1]


def numbers_of(release):
    numbers = re.match(r"(\d+)\.(\d+)", release)
    if not numbers:
        raise BuildError(f"PyTorch {release}: this is no number of a release")
    return numbers


def command(release, torch_folder, target):
    """What compiles and links all of it."""
    includes = [SOURCES / "include", torch_folder / "include",
                *header_folders(torch_folder)]
    return [*compiler(), *recipe.FLAGS, "-shared",
            *recipe.macros(numbers_of(release)[0]), *map(str, sources()),
            *(word for folder in includes for word in ("-isystem", str(folder))),
            "-o", str(target), f"-L{torch_folder / 'lib'}", "-lc10",
            "-lc10_cuda", str(PACKAGE / "libmoiety.so.0"), *runtime(),
            f"-Wl,-rpath,{PACKAGE}", f"-Wl,-rpath,{torch_folder / 'lib'}"]


def key(release, git_version):
    """Names what the library is made from."""
    digest = recipe.digest(SOURCES, release, git_version, str(PACKAGE),
                           *compiler())
    return f"{release}-{digest}"


def run(words):
    try:
        done = subprocess.run(words, text=True, capture_output=True,
                              timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise BuildError(
            f"{words[0]}: there is no such C++ compiler: install "
            f"build-essential (Debian, Ubuntu) or gcc-c++ (Fedora), or name one "
            f"in CXX") from None
    except subprocess.TimeoutExpired:
        raise BuildError(f"{shlex.join(words)}: no end after {TIMEOUT_S} s"
                         ) from None
    if done.returncode:
        raise BuildError(f"{shlex.join(words)}\n{done.stderr.strip()}")


def load(torch):
    """The library for this PyTorch. One that the wheel brings and that does not
    load, by what it misses in this PyTorch, say, is passed over."""
    path = prebuilt(torch)
    if path:
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            pass
    path = library(torch.__version__, torch.version.git_version,
                   Path(torch.__file__).resolve().parent)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"{path}: {error}") from error


def library(release, git_version, torch_folder):
    """The path of the library that is made here, made if it is not there. Of
    processes that come at once one makes it, and the others wait."""
    folder = cache_folder() / key(release, git_version)
    target = folder / LIBRARY
    if target.is_file():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_file():
                make(release, torch_folder, target)
    except OSError as error:
        raise BuildError(f"{folder}: {error.strerror}: MOIETY_TORCH_CACHE names "
                         f"another folder") from error
    return target


def make(release, torch_folder, target):
    """Never half of it: the file comes when it is whole."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = Path(scratch) / LIBRARY
        words = command(release, torch_folder, made)
        try:
            run(words)
        except BuildError as error:
            if numbers_of(release)[0] in recipe.RELEASES:
                raise
            raise BuildError(
                f"Moiety is not known to serve PyTorch {release}, but "
                f"{', '.join(recipe.RELEASES)}: {error}") from error
        os.replace(made, target)
