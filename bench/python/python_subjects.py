# SPDX-License-Identifier: Apache-2.0
"""What python_latency.py measures: in a process of each of KINDS, pairs of
getting memory and dropping it at once, for the same operations.

Nothing uses the memory in between, so that it shows what the call costs and
not what reuse waits for. What the subjects promise differs: Moiety's memory,
where the subject is not called `_stream` or `_done`, is safe to drop while any
stream still uses it; numba's own manager gives it back to the driver, which waits;
the pools of CuPy and PyTorch give it to the next on the same stream at once.
"""

import importlib.metadata
from typing import Callable, NamedTuple

DEVICE_BYTES = 64 << 10
PINNED_BYTES = 1 << 20


class Missing(Exception):
    """The package cannot be used here."""


class Pair(NamedTuple):
    """One operation of one subject. `take` returns what frees the memory when
    it is dropped; `is_right` says of one of these whether it is what is meant;
    `enter` prepares a thread."""

    operation: str
    subject: str
    size_bytes: int
    take: Callable
    is_right: Callable
    enter: Callable = lambda: None


def of_moiety():
    import moiety
    import moiety.numpy
    import numpy

    try:
        pool, host = moiety.Pool(), moiety.numpy.arena(0)
    except moiety.Error as error:
        raise Missing(f"Moiety finds no device: {error}") from error
    empty_pinned = moiety.numpy.empty_pinned

    def take_done():
        block = host.alloc(PINNED_BYTES)
        block.free(moiety.DONE)
        return block

    return moiety.__version__, [
        Pair("nothing", "python", 0, lambda: None, lambda none: none is None),
        Pair("device memory", "moiety", DEVICE_BYTES,
             lambda: pool.alloc(DEVICE_BYTES),
             lambda block: pool.owns(block.address)),
        Pair("device memory", "moiety_stream", DEVICE_BYTES,
             lambda: pool.alloc(DEVICE_BYTES, moiety.LEGACY),
             lambda block: block.stream == moiety.LEGACY),
        Pair("pinned memory", "moiety", PINNED_BYTES,
             lambda: empty_pinned(PINNED_BYTES, numpy.uint8),
             lambda array: host.owns(array.ctypes.data)),
        Pair("pinned memory", "moiety_block", PINNED_BYTES,
             lambda: host.alloc(PINNED_BYTES),
             lambda block: host.owns(block.address)),
        Pair("pinned memory", "moiety_done", PINNED_BYTES, take_done,
             lambda block: not block.is_live)]


def of_numba(subject, owns_device, owns_host):
    import numpy
    from numba import cuda

    byte = numpy.uint8
    context = cuda.current_context()
    enter = cuda.current_context
    return importlib.metadata.version("numba-cuda"), [
        Pair("numba memalloc", subject, DEVICE_BYTES,
             lambda: context.memalloc(DEVICE_BYTES),
             lambda memory: owns_device(memory.device_pointer_value), enter),
        Pair("numba device_array", subject, DEVICE_BYTES,
             lambda: cuda.device_array(DEVICE_BYTES, byte),
             lambda array: owns_device(array.gpu_data.device_pointer_value),
             enter),
        Pair("numba pinned_array", subject, PINNED_BYTES,
             lambda: cuda.pinned_array(PINNED_BYTES, byte),
             lambda array: owns_host(array.ctypes.data), enter)]


def numba_or_missing():
    try:
        from numba import cuda
    except ImportError as error:
        raise Missing(f"numba is not installed: {error}") from error
    if not cuda.is_available():
        raise Missing("numba finds no CUDA device")
    return cuda


def of_numba_alone():
    cuda = numba_or_missing()
    manager = type(cuda.current_context().memory_manager).__name__
    is_own = manager == "NumbaCUDAMemoryManager"
    return of_numba("numba", lambda _: is_own, lambda _: is_own)


def of_numba_with_moiety():
    numba_or_missing()
    import moiety.numba

    return of_numba("moiety", lambda address: moiety.numba.pool().owns(address),
                    lambda address: moiety.numba.arena().owns(address))


def of_cupy():
    try:
        import cupy
    except ImportError as error:
        raise Missing(f"CuPy is not installed: {error}") from error
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise Missing(f"CuPy finds no CUDA device: {error}") from error
    alloc, alloc_pinned = cupy.cuda.alloc, cupy.cuda.alloc_pinned_memory
    pool = cupy.get_default_memory_pool()
    return cupy.__version__, [
        Pair("device memory", "cupy", DEVICE_BYTES, lambda: alloc(DEVICE_BYTES),
             lambda _: pool.used_bytes() >= DEVICE_BYTES),
        Pair("pinned memory", "cupy", PINNED_BYTES,
             lambda: alloc_pinned(PINNED_BYTES),
             lambda memory: memory.mem.size >= PINNED_BYTES)]


def of_torch():
    try:
        import torch
    except ImportError as error:
        raise Missing(f"PyTorch is not installed: {error}") from error
    if not torch.cuda.is_available():
        raise Missing("PyTorch finds no CUDA device")
    empty, byte = torch.empty, torch.uint8
    return torch.__version__, [
        Pair("device memory", "torch", DEVICE_BYTES,
             lambda: empty(DEVICE_BYTES, dtype=byte, device="cuda"),
             lambda tensor: tensor.is_cuda),
        Pair("pinned memory", "torch", PINNED_BYTES,
             lambda: empty(PINNED_BYTES, dtype=byte, pin_memory=True),
             lambda tensor: tensor.is_pinned())]


# By kind: what makes its pairs, and what its process has in its environment.
KINDS = {
    "moiety": (of_moiety, {}),
    "numba": (of_numba_alone, {"NUMBA_CUDA_MEMORY_MANAGER": "default"}),
    "numba_moiety": (of_numba_with_moiety,
                     {"NUMBA_CUDA_MEMORY_MANAGER": "moiety.numba"}),
    "cupy": (of_cupy, {}),
    "torch": (of_torch, {}),
}
