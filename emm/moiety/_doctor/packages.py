# SPDX-License-Identifier: Apache-2.0
"""Checks of `moiety doctor`: what else is installed, and whether Moiety works
with that version. Asked by importing it, in a process of its own."""

import importlib.util
import os
import subprocess
import sys

from moiety._capture.frameworks import CudaCore, CuPy, Torch
from moiety._doctor.machine import (
    LACKING, OK, UNKNOWN, UNSAFE, Finding, installed_versions)

TIMEOUT_S = 120
CUDA_13 = 13000
# Prints what the hook has to say about the framework.
_CAPTURE = """\
import importlib, sys, warnings
from moiety._capture.hook import HOOK
HOOK.install()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    importlib.import_module(sys.argv[1])
print(*(one.message for one in caught
        if str(one.message).startswith("moiety ")), sep="\\n", end="")
"""

# Prints who pickles numba's IPC handles, or why they cannot be made.
_NUMBA = """\
import moiety.numba
from moiety._numba import ipc
print(ipc.why_not() or ipc.who_pickles(), end="")
"""


def is_installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def in_child(code, *arguments):
    """What it printed, and how it failed or None. It finds what this process
    finds, and nothing in the folder that it is started from."""
    path = os.pathsep.join(filter(None, sys.path))
    try:
        ended = subprocess.run(
            [sys.executable, "-c", code, *arguments], text=True, check=False,
            capture_output=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL,
            cwd="/", env={**os.environ, "PYTHONPATH": path})
    except subprocess.TimeoutExpired:
        return "", f"no end after {TIMEOUT_S} s"
    if ended.returncode == 0:
        return ended.stdout, None
    lines = ended.stderr.strip().splitlines() or [
        f"exit status {ended.returncode}"]
    return "", lines[-1]


def _versions(*names):
    return ", ".join(map(" ".join, installed_versions(names).items()))


def numba(machine):
    if not is_installed("numba"):
        return None
    what = _versions("numba", "numba-cuda", "cuda-bindings")
    handles, failure = in_child(_NUMBA)
    if failure:
        return Finding("numba", LACKING, f"{what}: moiety.numba cannot be used: "
                       f"{failure}", "docs/install.md has the versions")
    if what.startswith("numba 0.56.") and "numba-cuda" not in what and (
            machine.driver_version or 0) >= CUDA_13:
        return Finding("numba", LACKING, f"{what} does not run on drivers of "
                       f"CUDA 13, with any memory manager",
                       "install numba-cuda")
    conf = machine.environment.get("MOIETY_CONF", "").split(",")
    for mode in ("checked:1", "pass_through:1"):
        if mode in conf and "exportable:0" not in conf:
            return Finding("numba", LACKING, f"{what}: with {mode} its pools, "
                           f"which can be exported from, are refused",
                           f"MOIETY_CONF={mode},exportable:0")
    if "memory:mapped" in conf and "exportable:0" not in conf:
        return Finding("numba", LACKING, f"{what}: get_ipc_handle() fails for "
                       f"mapped memory", "MOIETY_CONF=memory:driver")
    if handles not in ("numba", "Moiety"):
        return Finding("numba", LACKING, f"{what}: get_ipc_handle() fails: "
                       f"{handles}", "docs/install.md has the versions")
    return Finding("numba", OK, f"{what}: moiety.numba can be used; "
                   f"{handles} pickles its IPC handles")


def numpy(_machine):
    if not is_installed("numpy"):
        return None
    what = _versions("numpy")
    _, failure = in_child("import moiety.numpy")
    if failure:
        return Finding("NumPy", LACKING, f"{what}: moiety.numpy cannot be used: "
                       f"{failure}", "install numpy 1.22 or newer")
    return Finding("NumPy", OK, f"{what}: moiety.numpy can be used")


def _captures(name, package, framework):
    if not is_installed(package):
        return None
    said, failure = in_child(_CAPTURE, framework.MODULE)
    if failure:
        return Finding(name, UNKNOWN, f"{framework.MODULE} cannot be imported: "
                       f"{failure}")
    if said:
        return Finding(name, UNSAFE, said, "hold a capture guard around "
                       "captures (docs/guides/numba-cupy.md), or use another version")
    return Finding(name, OK, "moiety.numba holds the guard while it captures a "
                   "graph")


def torch(_machine):
    return _captures("PyTorch", "torch", Torch)


def cupy(_machine):
    return _captures("CuPy", "cupy", CuPy)


def cuda_core(_machine):
    return _captures("cuda.core", "cuda.core", CudaCore)
