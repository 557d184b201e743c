# SPDX-License-Identifier: Apache-2.0
"""What python_latency.py measures: in a process of each of KINDS, pairs of
getting memory and dropping it at once, for the same operations.

Nothing uses the memory in between, so that it shows what the call costs and
not what reuse waits for. Pairs of one size ask for what they just gave back; those
of mixed sizes take another size each time; and "live" ones give back one of many
blocks that a thread holds, by chance, and get one of another size: misses, for the
most part. The largest come first, so that pools are as large as a program's when
the short ones come: how short a block Moiety's caches keep follows from that.

What the subjects promise differs: Moiety's memory,
where the subject is not called `_stream` or `_done`, is safe to drop while any
stream still uses it; numba's own manager gives it back to the driver, which waits;
the pools of CuPy and PyTorch give it to the next on the same stream at once.
"""

import importlib.metadata
import itertools
import random
from typing import Callable, NamedTuple

DEVICE_BYTES = 64 << 10
PINNED_BYTES = 1 << 20
ONE_SIZE = (4 << 20, DEVICE_BYTES)
MOST_OF_MIXED = (300 << 20, 8 << 20)
LEAST_OF_MIXED = 512
SIZES = 4096
# Blocks of mixed sizes that a thread holds.
LIVE_BLOCKS = 16


class Missing(Exception):
    """The package cannot be used here."""


class Pair(NamedTuple):
    """One operation of one subject. `take` returns what frees the memory when
    it is dropped; `is_right` says of one of these whether it is what is meant;
    `enter` prepares a thread. Where each thread has a `take` of its own, `of_thread`
    makes it."""

    operation: str
    subject: str
    size_bytes: int
    take: Callable
    is_right: Callable
    enter: Callable = lambda: None
    of_thread: Callable | None = None


def mixed_sizes(most):
    """As many in each doubling, the same in each thread and run."""
    chance = random.Random(1)
    return [int(LEAST_OF_MIXED * (most / LEAST_OF_MIXED) ** chance.random())
            for _ in range(SIZES)]


def mixed(alloc, most):
    following = itertools.cycle(mixed_sizes(most)).__next__
    return lambda: alloc(following())


def live(alloc, most):
    chance = random.Random(2)
    following = itertools.cycle([
        (chance.randrange(LIVE_BLOCKS), size)
        for size in mixed_sizes(most)]).__next__
    blocks = [None] * LIVE_BLOCKS

    def take():
        index, size = following()
        blocks[index] = None
        blocks[index] = block = alloc(size)
        return block

    return take


def pairs_of(operation, subject, alloc, is_right, enter=lambda: None):
    """Of mixed sizes among live blocks, of mixed ones, and of one size. `enter` is
    called by each thread first: a runtime without a current context asks the
    driver for the device at each call, and programs have one."""
    for most in MOST_OF_MIXED:
        for name, make in (("live", live), ("mixed", mixed)):
            yield Pair(f"{name} {operation}", subject, most,
                       lambda most=most: alloc(most), is_right, enter,
                       lambda make=make, most=most: make(alloc, most))
    for size in ONE_SIZE:
        yield Pair(operation, subject, size, lambda size=size: alloc(size),
                   is_right, enter)


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
        *pairs_of("device memory", "moiety", pool.alloc,
                  lambda block: pool.owns(block.address)),
        *pairs_of("device memory", "moiety_stream",
                  lambda size: pool.alloc(size, moiety.LEGACY),
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
        *pairs_of("numba memalloc", subject, context.memalloc,
                  lambda memory: owns_device(memory.device_pointer_value),
                  enter),
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


def cupy_or_missing():
    try:
        import cupy
    except ImportError as error:
        raise Missing(f"CuPy is not installed: {error}") from error
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise Missing(f"CuPy finds no CUDA device: {error}") from error
    return cupy


def of_cupy():
    cupy = cupy_or_missing()
    alloc_pinned = cupy.cuda.alloc_pinned_memory
    pool = cupy.get_default_memory_pool()
    return cupy.__version__, [
        *pairs_of("device memory", "cupy", cupy.cuda.alloc,
                  lambda memory: pool.used_bytes() >= memory.mem.size,
                  cupy.cuda.Device().use),
        Pair("pinned memory", "cupy", PINNED_BYTES,
             lambda: alloc_pinned(PINNED_BYTES),
             lambda memory: memory.mem.size >= PINNED_BYTES)]


def of_cupy_with_moiety():
    cupy = cupy_or_missing()
    import moiety
    import moiety.cupy

    pool = moiety.Pool()
    cupy.cuda.set_allocator(moiety.cupy.allocator(pool))
    return cupy.__version__, list(pairs_of(
        "device memory", "cupy_moiety", cupy.cuda.alloc,
        lambda memory: pool.owns(memory.ptr), cupy.cuda.Device().use))


def of_cuda_core(subject, resource_of):
    """By `resource_of(device)`: what makes buffers, and whether one is right."""
    try:
        from cuda.core import Device
    except ImportError as error:
        raise Missing(f"cuda.core is not installed: {error}") from error
    try:
        device = Device()
        device.set_current()
        resource, is_right = resource_of(device)
    except Exception as error:  # cuda.core's and ours have no common one
        raise Missing(f"cuda.core finds no device: {error}") from error
    stream, allocate = device.create_stream(), resource.allocate
    return importlib.metadata.version("cuda-core"), list(pairs_of(
        "device memory", subject, lambda size: allocate(size, stream=stream),
        is_right, device.set_current))


def of_cuda_core_alone():
    def resource_of(device):
        from cuda.core import DeviceMemoryResource

        return DeviceMemoryResource(device), lambda buffer: buffer.size > 0

    return of_cuda_core("cuda_core", resource_of)


def of_cuda_core_with_moiety():
    def resource_of(device):
        import moiety.cuda_core

        resource = moiety.cuda_core.MemoryResource(device)
        return resource, lambda buffer: resource.pool.owns(int(buffer.handle))

    return of_cuda_core("cuda_core_moiety", resource_of)


def of_torch():
    try:
        import torch
    except ImportError as error:
        raise Missing(f"PyTorch is not installed: {error}") from error
    if not torch.cuda.is_available():
        raise Missing("PyTorch finds no CUDA device")
    empty, byte = torch.empty, torch.uint8
    return torch.__version__, [
        *pairs_of("device memory", "torch",
                  lambda size: empty(size, dtype=byte, device="cuda"),
                  lambda tensor: tensor.is_cuda,
                  lambda: torch.cuda.set_device(0)),
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
    "cupy_moiety": (of_cupy_with_moiety, {}),
    "cuda_core": (of_cuda_core_alone, {}),
    "cuda_core_moiety": (of_cuda_core_with_moiety, {}),
    "torch": (of_torch, {}),
}
