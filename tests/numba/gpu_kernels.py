# SPDX-License-Identifier: Apache-2.0
"""numba kernels on a GPU whose arrays come from the pool (moiety.numba); numpy
says what must come out.

usage: gpu_kernels.py [--seed=N] [--scale=N] [--planted]

It needs numba-cuda, a GPU, and the package on PYTHONPATH. --planted
frees every array as if nothing that uses it were pending: wrong words must come
out, and the status says whether they did.
"""

import argparse
import concurrent.futures
import gc
import os
import sys

import numpy as np

os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "moiety.numba"
os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"

from numba import cuda  # noqa: E402, after its settings

import moiety.numba  # noqa: E402
from moiety import _native  # noqa: E402
from moiety._numba import manager  # noqa: E402

BLOCK = 256
WORDS = 4096


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@cuda.jit
def fill(out, value):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = value


@cuda.jit
def copy_late(source, out):
    """Leaves time for whoever has been given the source too early."""
    i = cuda.grid(1)
    cuda.nanosleep(200_000)
    if i < out.size:
        out[i] = source[i]


def grid(words):
    return (words + BLOCK - 1) // BLOCK


def sizes(largest_order):
    """1, and the powers of two with their neighbours: odd ends of classes."""
    powers = (1 << order for order in range(1, largest_order + 1))
    return [1] + [power + more for power in powers for more in (-1, 0, 1)]


# Each part yields, for one result after the other, how many words are wrong.


def add_vectors(rng, scale):
    """The arguments are dropped while the kernel may still be reading them."""
    for words in sizes(22) * scale:
        a, b = rng.integers(1 << 40, size=(2, words))
        out = cuda.device_array(words, np.int64)
        add[grid(words), BLOCK](cuda.to_device(a), cuda.to_device(b), out)
        yield np.count_nonzero(out.copy_to_host() != a + b)


def reduce_vectors(rng, scale):
    sum_of = cuda.reduce(lambda a, b: a + b)
    for words in sizes(22) * scale:
        a = rng.integers(1 << 40, size=words)
        yield int(sum_of(cuda.to_device(a)) != a.sum())


def create_and_drop(rng, scale):
    live = []
    for value in range(20_000 * scale):
        words = int(2 ** rng.uniform(0, 18))
        array = cuda.device_array(words, np.int32)
        fill[grid(words), BLOCK](array, value)
        live.append((array, value))
        if len(live) == 64:
            array, value = live.pop(rng.integers(len(live)))
            yield np.count_nonzero(array.copy_to_host() != value)


def use_streams(_rng, scale, first=0):
    """Each array is dropped while its stream has still to read it, and the next
    one is for another stream."""
    jobs = 2_000 * scale
    streams = [cuda.stream() for _ in range(8)]
    results = cuda.device_array((jobs, WORDS), np.int32)
    for job in range(jobs):
        stream = streams[job % len(streams)]
        array = cuda.device_array(WORDS, np.int32)
        fill[grid(WORDS), BLOCK, stream](array, first + job)
        copy_late[grid(WORDS), BLOCK, stream](array, results[job])
        del array
    cuda.synchronize()
    for job, words in enumerate(results.copy_to_host()):
        yield np.count_nonzero(words != first + job)


def use_threads(rng, scale):
    def one(index):
        return list(use_streams(rng, scale, first=index << 20))

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for wrong in threads.map(one, range(4)):
            yield from wrong


def alloc_and_free_as_done(source, size):
    block = source.alloc(size)
    block.stream = _native.DONE
    return block


PARTS = (add_vectors, reduce_vectors, create_and_drop, use_streams, use_threads)


def run(part, seed, scale):
    """Prints what became of a part; how many words were wrong."""
    found = [int(words) for words in part(np.random.default_rng(seed), scale)]
    bad = sum(words > 0 for words in found)
    print(f"{part.__name__}: {len(found)} results, {bad} of them wrong, "
          f"{sum(found)} words", flush=True)
    return sum(found)


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--planted", action="store_true")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    print(f"seed {arguments.seed}, scale {arguments.scale}, "
          f"on {cuda.get_current_device().name}")
    if arguments.planted:
        manager.alloc = alloc_and_free_as_done
    wrong = sum(run(part, arguments.seed, arguments.scale) for part in PARTS)
    gc.collect()
    stats = moiety.numba.pool().stats()
    for key, value in stats.items():
        print(f"  {key} {value}")
    if arguments.planted:
        print("the planted error was", "seen" if wrong else "NOT SEEN")
        return wrong > 0
    return (wrong == 0 and stats.allocation_allocated > 0
            and stats.allocation_current == 0)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
