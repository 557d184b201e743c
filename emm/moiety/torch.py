# SPDX-License-Identifier: Apache-2.0
"""PyTorch on the pool.

    python -m moiety.torch train.py --its --arguments

or, before the program uses CUDA:

    import moiety.torch
    moiety.torch.enable()

From then on all of PyTorch's device memory comes from one pool for each device,
for good. docs/guides/pytorch.md has the whole: what of PyTorch's settings has an
effect, what is different, what is not served.

The wheel brings the library for some releases of PyTorch. For others it is made
at the first use, by the machine's C++ compiler, and kept in a folder of caches.
Where there is neither, a reduced plug-in serves, with a warning.
"""

import ctypes
import runpy
import sys
from pathlib import Path

from moiety._native import Error
from moiety._torch import build as _build
from moiety._torch import mempool as _mempool
from moiety._torch import pluggable as _pluggable

BuildError = _build.BuildError

__all__ = ["BuildError", "MemPool", "enable", "is_enabled"]

# A MOIETY_POOL_ bit, and moiety_memory, of the C header.
_EXPORTABLE = 1 << 2
_MEMORY = {"auto": 0, "mapped": 2, "driver": 1}
_TENANT_NAME_BYTES = 32

_enabled = None


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32),
                ("pool_flags", ctypes.c_uint32),
                ("limit_bytes", ctypes.c_uint64),
                ("has_exact_peaks", ctypes.c_uint32),
                ("memory", ctypes.c_uint32)]


def is_enabled():
    """Whether enable() has made Moiety PyTorch's allocator in this process."""
    return _enabled is not None


def _torch():
    try:
        import torch
    except ImportError as error:
        raise Error(f"PyTorch is not installed: {error}") from error
    if torch.version.cuda is None:
        raise Error(f"PyTorch {torch.__version__} is built without CUDA")
    return torch


def enable(limit=None, memory="auto", ipc=False, exact_peaks=False,
           reduced=None):
    """Makes Moiety PyTorch's allocator for CUDA in this process.

    limit        most bytes that each device's pool reserves; None: what the
                 device has. MOIETY_CONF goes over it.
    memory       "mapped": pages that move to where they are wanted, which needs
                 least; "driver": memory of cuMemAlloc; "auto": mapped where the
                 device has it.
    ipc          tensors may be given to other processes by
                 torch.multiprocessing. It takes memory of the driver: with
                 memory="mapped" that is a ValueError.
    exact_peaks  torch.cuda.max_memory_allocated() is exact with several threads
                 too. Otherwise it may be off by up to 1 MiB for each of them;
                 with one thread it is exact.
    reduced      None: where the library for this PyTorch can be neither found nor
                 made, PyTorch's interface for plug-ins is used, which serves less,
                 with a RuntimeWarning that says what. False: that is a BuildError,
                 as it is with ipc or exact_peaks, which plug-ins do not have.
                 True: the plug-in.

    Error when CUDA has started in this process, when Moiety is enabled already,
    or when there is no PyTorch with CUDA; BuildError, one of these, when the
    library cannot be made. Call it in one thread. Nothing of it changes where it
    fails.
    """
    global _enabled
    limit = _checked(limit, memory, ipc)
    if reduced and (ipc or exact_peaks):
        raise ValueError("reduced=True has neither ipc nor exact_peaks")
    if _enabled is not None:
        raise Error("Moiety is PyTorch's allocator already")
    torch = _torch()
    if torch.cuda.is_initialized():
        raise Error("CUDA has started in this process: call "
                    "moiety.torch.enable() before the first tensor on a device")
    kind = (_EXPORTABLE if ipc else 0, _MEMORY[memory])
    reason = "reduced=True"
    if not reduced:
        try:
            _enabled = _with_library(torch, kind, limit, bool(exact_peaks))
            return
        except BuildError as error:
            if reduced is not None or ipc or exact_peaks:
                raise
            reason = error
    _enabled = _pluggable.enable(torch, kind, limit, reason)


def MemPool(tenant=None, limit=None, fixed=False, use_on_oom=False):
    """A torch.cuda.MemPool of the current device, for torch.cuda.use_mem_pool(),
    whose memory is

    tenant      of a tenant of that name, up to 31 bytes: pause() gives it back to
                the driver, with or without its contents, and resume() takes it
                again at the same addresses. This takes mapped memory.
    fixed       memory that never moves, for what is registered by its address,
                as NCCL's windows are. One of the two is wanted.
    limit       most bytes that tensors in it hold, or with fixed that it
                reserves, from 2 MiB on; None: no limit of its own.
    use_on_oom  as for torch.cuda.MemPool.

    Error when Moiety is not PyTorch's allocator, when the reduced plug-in is, or
    when the device's pool has no such memory.
    """
    if (tenant is None) == (not fixed):
        raise ValueError("MemPool(): either a tenant or fixed=True is wanted")
    name = None if tenant is None else tenant.encode()
    if name is not None and not 0 < len(name) < _TENANT_NAME_BYTES:
        raise ValueError(f"tenant={tenant!r}: accepted are 1 to "
                         f"{_TENANT_NAME_BYTES - 1} bytes")
    limit = _checked_limit(limit)
    if not isinstance(_enabled, ctypes.CDLL):
        raise Error("moiety.torch.MemPool() needs Moiety as PyTorch's "
                    "allocator, by moiety.torch.enable(), and not its plug-in")
    return _mempool.class_of(_torch(), _enabled)(name, limit,
                                                 use_on_oom=use_on_oom)


def _checked(limit, memory, ipc):
    if memory not in _MEMORY:
        raise ValueError(f"memory={memory!r}: accepted are "
                         f"{', '.join(map(repr, _MEMORY))}")
    if ipc and memory == "mapped":
        raise ValueError("ipc=True takes memory of the driver: leave memory as "
                         "it is, or \"driver\"")
    return _checked_limit(limit)


def _checked_limit(limit):
    limit = 0 if limit is None else limit
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise TypeError(f"limit={limit!r}: bytes, as an int")
    if not 0 <= limit < 1 << 63:
        raise ValueError(f"limit={limit}: accepted are 0 to 2**63 - 1 bytes")
    return limit


def _with_library(torch, kind, limit, has_exact_peaks):
    loaded = _build.load(torch)
    flags, memory = kind
    options = _Options(ctypes.sizeof(_Options), flags, limit,
                       int(has_exact_peaks), memory)
    _mempool.call(loaded.moiety_torch_enable, ctypes.byref(options))
    return loaded


def _main(arguments):
    """Runs a program with Moiety enabled, as `python program` runs it."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m moiety.torch PROGRAM [ARGUMENT]...\n"
              "       python -m moiety.torch -m MODULE [ARGUMENT]...\n"
              "MOIETY_CONF has the settings of the pools.",
              file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    is_module = arguments[0] == "-m"
    if is_module:
        arguments = arguments[1:]
        if not arguments:
            print("python -m moiety.torch -m: a module's name is missing",
                  file=sys.stderr)
            return 2
    # The module that the program imports, not this run of it.
    import moiety.torch
    try:
        moiety.torch.enable()
    except Error as error:
        print(f"moiety.torch: {error}", file=sys.stderr)
        return 1
    sys.argv = list(arguments)
    if is_module:
        sys.path[0] = ""
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
