# SPDX-License-Identifier: Apache-2.0
"""PyTorch on the pool.

    python -m moiety.torch train.py --its --arguments

or, before the program uses CUDA:

    import moiety.torch
    moiety.torch.enable()

All device memory of PyTorch then comes from moiety.pools(), one pool for each
device, until the process ends. The page docs/guides/pytorch.md says which of PyTorch's settings have an
effect, what differs, and what is not supported.

The wheel contains the library for some releases of PyTorch. For others, the
machine's C++ compiler makes it at the first use, and a cache folder keeps it.
Without either, a reduced plug-in is used, with a warning."""

import ctypes
import runpy
import sys
from pathlib import Path
from typing import Any, NamedTuple

from moiety._native import Error, _bytes_of
from moiety._support import arguments as _arguments
from moiety._torch import build as _build
from moiety._torch import mempool as _mempool
from moiety._torch import once as _once
from moiety._torch import pluggable as _pluggable

BuildError = _build.BuildError

__all__ = ["BuildError", "Peak", "enable", "fixed_pool", "is_enabled", "load_once",
           "pausable_pool", "peak"]

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
    """Returns whether enable() has made Moiety PyTorch's allocator in this process."""
    return _enabled is not None


def _torch():
    try:
        import torch
    except ImportError as error:
        raise Error(f"PyTorch is not installed: {error}") from error
    if torch.version.cuda is None:
        raise Error(f"PyTorch {torch.__version__} is built without CUDA")
    return torch


@_arguments.named
def enable(limit=None, memory="auto", ipc=False, exact_peaks=False,
           reduced=None, pinned=False):
    """Makes Moiety PyTorch's allocator for CUDA in this process.

    limit        the most bytes that each device's pool reserves: a number, text
                 such as "8GiB", or None for all that the device has. MOIETY_CONF
                 overrides it.
    memory       "auto", "mapped" or "driver". Mapped pages move to where they are
                 needed, which needs the least memory. Memory of the driver comes
                 from cuMemAlloc(). The first is mapped if the device supports it.
    ipc          lets torch.multiprocessing pass tensors to other processes. It
                 requires memory of the driver: with "mapped" it is a ValueError.
    exact_peaks  makes torch.cuda.max_memory_allocated() exact with several threads
                 too. Otherwise it can be off by up to 1 MiB for each thread.
    reduced      None: without a library for this PyTorch, the reduced plug-in is
                 used, with a RuntimeWarning that lists what it lacks. False: that is
                 a BuildError, as with `ipc`, `exact_peaks` and `pinned`. True: the
                 plug-in.
    pinned       makes Moiety PyTorch's allocator of pinned memory too, as of
                 Tensor.pin_memory(): it comes from host arenas next to the current
                 device. If such memory is refused, PyTorch's own allocator provides
                 it, and a warning has the reason. Children of a fork do not have it.

    Raises Error if CUDA has started in this process, if Moiety is enabled already, or
    without a PyTorch with CUDA. Raises Error if another library uses moiety.pools()
    already. Raises BuildError if the library cannot be made.
    Nothing has changed then. Call it in one thread."""
    global _enabled
    limit = _checked(limit, memory, ipc)
    if reduced and (ipc or exact_peaks or pinned):
        raise ValueError("reduced=True supports neither ipc nor exact_peaks nor "
                         "pinned")
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
            _enabled = _with_library(torch, kind, limit, bool(exact_peaks),
                                     bool(pinned))
            return
        except BuildError as error:
            if reduced is not None or ipc or exact_peaks or pinned:
                raise
            reason = error
    _enabled = _pluggable.enable(torch, kind, limit, reason)


@_arguments.named
def pausable_pool(name, *, limit=None, use_on_oom=False):
    """Returns a torch.cuda.MemPool of the current device that can be paused, for
    torch.cuda.use_mem_pool(). It requires mapped memory.

    name        the name of its tenant, from 1 to 31 bytes.
    limit       the most bytes that its tensors hold: a number, text such as
                "8GiB", or None for no limit of its own.
    use_on_oom  as for torch.cuda.MemPool.

    pool.pause(keep_contents=False) returns its device memory to the driver.
    pool.resume() takes memory again at the same addresses. Queue no work that
    uses it between the two, graphs included.

    Raises Error if Moiety is not PyTorch's allocator, if the reduced plug-in is,
    or if the device's pool is not mapped.
    """
    encoded = name.encode()
    if not 0 < len(encoded) < _TENANT_NAME_BYTES:
        raise ValueError(f"name={name!r}: accepted are 1 to "
                         f"{_TENANT_NAME_BYTES - 1} bytes")
    return _mem_pool("pausable_pool", encoded, limit, use_on_oom)


@_arguments.named
def fixed_pool(*, limit=None, use_on_oom=False):
    """Returns a torch.cuda.MemPool of the current device whose memory never moves,
    for memory that is registered by its address, such as windows of NCCL.

    limit       the most bytes that it reserves, from 2 MiB on: a number, text
                such as "8GiB", or None for no limit of its own.
    use_on_oom  as for torch.cuda.MemPool.

    Raises Error as pausable_pool() does.
    """
    return _mem_pool("fixed_pool", None, limit, use_on_oom)


@_arguments.named
def load_once(keeper, name, load, *, skeleton=None, key="", device=None,
              limit_s=None):
    """Returns a torch.nn.Module whose tensors are in a region of that name: the first
    process loads it, and the others open what is there. The region outlives them.

    keeper    a moiety.regions.Keeper for this module alone. It stays open as long as a
              tensor of the module is used; closing it gives the region back.
    name      the region's, at most 247 bytes; one for each rank of a model.
    load      makes the module with its weights, on any device. The first process
              calls it, while the others wait. If it fails or its process ends, the
              next one loads. It does not call load_once() with the same name.
    skeleton  makes the same module without weights. The other processes call it within
              torch.device("meta"), and have all that is no tensor from it. Default:
              `load`, which must then neither read weights nor move the module.
    key       text of yours, such as the hash of a checkpoint. A region that was made
              with another key is refused.
    device    of the tensors: an ordinal or a torch.device; default: the current one.
    limit_s   the most seconds that it waits for a process that loads; default: no
              limit. Then it raises TimedOutError.

    The region has the storages of parameters, of buffers, and of tensors that are
    attributes of modules, also of those that were on the host. Tied weights and views
    stay so. dtypes are those of the first process. The module is in eval() mode and its
    parameters require no gradient. A kernel that writes one of these tensors, buffers
    included, is an illegal address, which costs the process its context. The keeper
    needs room for the storages and 2 MiB.

    Raises ValueError for a module with tensors in lists, dicts or dataclasses; other
    objects are not searched. Raises ValueError for tensors that are sparse, nested,
    quantized or of a subclass. Raises ValueError for a region that has another key, or
    tensors of other names or shapes than the skeleton. Raises as
    moiety.regions.Keeper.create() does. Of a call that raises, no region is left, unless
    the keeper does not answer. Moiety need not be PyTorch's allocator."""
    torch = _torch()
    if not isinstance(key, str):
        raise TypeError(f"key={key!r}: accepted is text")
    device = torch.device("cuda" if device is None else device) \
        if not isinstance(device, int) else torch.device("cuda", device)
    if device.type != "cuda":
        raise ValueError(f"device={str(device)!r}: accepted are devices of CUDA")
    index = torch.cuda.current_device() if device.index is None else device.index
    return _once.load_once(torch, keeper, name, load, skeleton, key, index, limit_s)


class Peak(NamedTuple):
    """Bytes of a device's tensors around a step, by peak(). Fields:

    result    the step's.
    before    live before it.
    most      live at the same time, at most, during it.
    after     live after it.
    reserved  reserved by the allocator, at most, during it."""

    result: Any
    before: int
    most: int
    after: int
    reserved: int


@_arguments.named
def peak(step, device=None):
    """Calls `step` and returns a Peak: how much memory it needs.

    step    a function without arguments, such as a training step.
    device  an ordinal or a torch.device; default: the current one.

    Works with each allocator of PyTorch, and resets its peaks of that device, as
    torch.cuda.reset_peak_memory_stats() does. With several threads, `most` is exact if
    enable() was called with `exact_peaks`. Memory of tensors that a CUDA graph replays
    is live from its capture on. Raises what the step raises."""
    cuda = _torch().cuda
    cuda.reset_peak_memory_stats(device)
    before = cuda.memory_allocated(device)
    result = step()
    return Peak(result, before, cuda.max_memory_allocated(device),
                cuda.memory_allocated(device), cuda.max_memory_reserved(device))


def _mem_pool(function, name, limit, use_on_oom):
    limit = _checked_limit(limit)
    if not isinstance(_enabled, ctypes.CDLL):
        raise Error(f"moiety.torch.{function}() needs Moiety as PyTorch's "
                    f"allocator, by moiety.torch.enable(), and not its plug-in")
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
    limit = _bytes_of("limit", limit)
    if limit >= 1 << 63:
        raise ValueError(f"limit={limit}: accepted are 0 to 2**63 - 1 bytes")
    return limit


def _with_library(torch, kind, limit, has_exact_peaks, is_pinned):
    loaded = _build.load(torch)
    flags, memory = kind
    options = _Options(ctypes.sizeof(_Options), flags, limit,
                       int(has_exact_peaks), memory)
    if is_pinned:
        _enable_pinned(loaded, only_checks=True)
    _mempool.call(loaded.moiety_torch_enable, ctypes.byref(options))
    if is_pinned:
        _enable_pinned(loaded)
    return loaded


def _enable_pinned(loaded, only_checks=False):
    _mempool.call(loaded.moiety_torch_enable_pinned,
                  ctypes.c_uint32(only_checks))


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
