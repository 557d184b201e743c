#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch, CuPy, numba, cuda.core and RMM in one process, on one pool and under
one limit, for minutes: threads of each fill blocks by work on a stream, have
each read again by later work, often by another library's, and drop it as soon
as that is queued. A block that serves again too early shows as wrong words.

usage: soak.py [--seconds=S] [--limit=BYTES] [--threads=N] [--without=LIBRARY...]

N threads of each library. Before that, each library's check is shown a block
with one wrong word, and has to find it. Prints one JSON object; the exit status
is 0 when no word was wrong, no thread failed and all blocks came back.
"""

import argparse
import json
import math
import os
import random
import sys
import threading
import time

import moiety.torch

WORD = 4
LEAST, MOST = 4 << 10, 64 << 20
KEPT = 6  # blocks that a thread has at a time, at the most


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--limit", type=int, default=1 << 30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without", action="append", default=[])
    return parser.parse_args()


arguments = parse_arguments()
moiety.torch.enable(limit=arguments.limit)
# Each such warning wraps standard output once more, where colorama is installed.
os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"

import cupy  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from cuda.core import Device  # noqa: E402
from numba import cuda  # noqa: E402

import moiety  # noqa: E402
import moiety.cuda_core  # noqa: E402
import moiety.cupy  # noqa: E402
import moiety.numba  # noqa: E402

POOL = moiety.pool_of(torch.empty(1, device="cuda").data_ptr())
moiety.cupy.enable(POOL)
moiety.numba.enable(POOL)
cuda.current_context()
if "rmm" not in arguments.without:
    import rmm

    import moiety.rmm
    moiety.rmm.enable(POOL)


def view(address, words):
    """As a CuPy array, without a copy; it keeps no block alive."""
    memory = cupy.cuda.UnownedMemory(address, words * WORD, None)
    return cupy.ndarray(words, cupy.uint32, cupy.cuda.MemoryPointer(memory, 0))


@cuda.jit
def numba_fill(words, seed):
    i = cuda.grid(1)
    if i < words.size:
        words[i] = i ^ seed


@cuda.jit
def numba_count(words, seed, wrong):
    i = cuda.grid(1)
    if i < words.size and words[i] != i ^ seed:
        cuda.atomic.add(wrong, 0, 1)


class Torch:
    name = "torch"

    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.handle = self.stream.cuda_stream

    def make(self, words, seed):
        with torch.cuda.stream(self.stream):
            return torch.arange(words, dtype=torch.int32,
                                device="cuda").bitwise_xor_(seed)

    @staticmethod
    def address(block):
        return block.data_ptr()


class CuPy:
    name = "cupy"

    def __init__(self):
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.handle = self.stream.ptr

    def make(self, words, seed):
        with self.stream:
            return cupy.arange(words, dtype=cupy.uint32) ^ cupy.uint32(seed)

    @staticmethod
    def address(block):
        return block.data.ptr


class Numba:
    name = "numba"

    def __init__(self):
        self.stream = cuda.stream()
        self.handle = int(self.stream)

    def make(self, words, seed):
        block = cuda.device_array(words, "uint32", stream=self.stream)
        numba_fill[(words + 255) // 256, 256, self.stream](block, seed)
        return block

    @staticmethod
    def address(block):
        return block.__cuda_array_interface__["data"][0]


class OverCuPy:
    """Blocks of a library that has no kernels are filled by CuPy's."""

    def __init__(self):
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.handle = self.stream.ptr

    def make(self, words, seed):
        block = self.take(words * WORD)
        with self.stream:
            cupy.bitwise_xor(cupy.arange(words, dtype=cupy.uint32),
                             cupy.uint32(seed),
                             out=view(self.address(block), words))
        return block


class CudaCore(OverCuPy):
    name = "cuda.core"

    def __init__(self):
        super().__init__()
        device = Device(0)
        device.set_current()
        self.memory = moiety.cuda_core.MemoryResource(device, POOL)
        self.of_core = device.create_stream(self.stream)

    def take(self, nbytes):
        return self.memory.allocate(nbytes, stream=self.of_core)

    @staticmethod
    def address(block):
        return int(block.handle)


class Rmm(OverCuPy):
    name = "rmm"

    def take(self, nbytes):
        return rmm.DeviceBuffer(
            size=nbytes, stream=rmm.pylibrmm.stream.Stream(self.stream))

    @staticmethod
    def address(block):
        return block.ptr


class Checks:
    """Count wrong words by work on a stream; each of the libraries that have
    kernels has a way. Counts are read at the end."""

    def __init__(self):
        self.by_torch = torch.zeros((), dtype=torch.int64, device="cuda")
        self.by_cupy = cupy.zeros((), dtype=cupy.int64)
        self.by_numba = cuda.to_device(numpy.zeros(1, numpy.int64))
        torch.cuda.synchronize()

    def torch(self, handle, array, seed):
        with torch.cuda.stream(torch.cuda.ExternalStream(handle)):
            words = torch.as_tensor(array.view(cupy.int32), device="cuda")
            expected = torch.arange(len(words), dtype=torch.int32,
                                    device="cuda").bitwise_xor_(seed)
            self.by_torch += (words != expected).sum()

    def cupy(self, handle, array, seed):
        with cupy.cuda.ExternalStream(handle):
            expected = cupy.arange(len(array), dtype=cupy.uint32)
            expected ^= cupy.uint32(seed)
            self.by_cupy += (array != expected).sum()

    def numba(self, handle, array, seed):
        stream = cuda.external_stream(handle)
        words = cuda.as_cuda_array(array, sync=False)
        numba_count[(len(array) + 255) // 256, 256, stream](
            words, seed, self.by_numba)

    def counts(self):
        torch.cuda.synchronize()
        return [int(self.by_torch), int(self.by_cupy),
                int(self.by_numba.copy_to_host()[0])]


WAYS = ("torch", "cupy", "numba")


def find_a_planted_word():
    """Each way of checking finds the one word that is wrong."""
    checks, stream = Checks(), cupy.cuda.Stream(non_blocking=True)
    for way in WAYS:
        with stream:
            array = cupy.arange(1 << 20, dtype=cupy.uint32)
            array[12345] = 0
        getattr(checks, way)(stream.ptr, array, 0)
        stream.synchronize()
    assert checks.counts() == [1, 1, 1], checks.counts()


class Worker(threading.Thread):
    def __init__(self, kind, seed, deadline):
        super().__init__(name=f"{kind.name} {seed}")
        self.kind, self.deadline = kind, deadline
        self.random = random.Random(seed)
        self.blocks = self.moved_bytes = self.refused = 0
        self.failure, self.wrong = None, []

    def run(self):
        try:
            Device(0).set_current()
            torch.cuda.set_device(0)
            self.work()
        except BaseException as error:  # whatever it was, it is told
            self.failure = f"{self.name}: {type(error).__name__}: {error}"

    def work(self):
        library, checks, kept = self.kind(), Checks(), []
        # As long as the user says.
        while time.monotonic() < self.deadline:
            if len(kept) == KEPT or kept and self.random.random() < 0.5:
                self.check_one(library, checks, kept)
            words = int(math.exp(self.random.uniform(
                math.log(LEAST), math.log(MOST)))) // WORD
            seed = self.random.getrandbits(30)
            try:
                kept.append((library.make(words, seed), words, seed))
            except (MemoryError, torch.cuda.OutOfMemoryError):
                self.refused += 1
                if kept:
                    self.check_one(library, checks, kept)
                continue
            self.blocks += 1
            self.moved_bytes += words * WORD
        while kept:
            self.check_one(library, checks, kept)
        self.wrong = checks.counts()

    def check_one(self, library, checks, kept):
        block, words, seed = kept.pop(self.random.randrange(len(kept)))
        array = view(library.address(block), words)
        while True:
            try:
                getattr(checks, self.random.choice(WAYS))(
                    library.handle, array, seed)
                return  # and the block is dropped, its last work pending
            except (MemoryError, torch.cuda.OutOfMemoryError):
                self.refused += 1


def main():
    find_a_planted_word()
    kinds = [Torch, CuPy, Numba, CudaCore]
    if "rmm" not in arguments.without:
        kinds.append(Rmm)
    POOL.reset_peaks()
    begun = time.monotonic()
    workers = [Worker(kind, number, begun + arguments.seconds)
               for kind in kinds for number in range(arguments.threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.monotonic() - begun
    torch.cuda.synchronize()
    stats = POOL.stats()
    row = {
        "kind": "soak", "seconds": round(seconds, 1),
        "device": torch.cuda.get_device_name(0),
        "limit_bytes": arguments.limit,
        "libraries": [kind.name for kind in kinds],
        "threads": len(workers),
        "blocks": sum(worker.blocks for worker in workers),
        "bytes": sum(worker.moved_bytes for worker in workers),
        "refused": sum(worker.refused for worker in workers),
        "wrong_words": dict(zip(WAYS, map(sum, zip(
            *(worker.wrong for worker in workers if worker.wrong))))),
        "failures": [worker.failure for worker in workers if worker.failure],
        "peak_live_bytes": stats.allocated_bytes_peak,
        "peak_reserved_bytes": stats.reserved_bytes_peak,
    }
    print(json.dumps(row))
    return not any(row["wrong_words"].values()) and not row["failures"]


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
