# SPDX-License-Identifier: Apache-2.0
"""A data frame's work in CuPy and numba, with many small temporaries: columns
and strings are filtered, hashed, joined, grouped and sorted, batch by batch.

usage: MOIETY_CONF=trace:FILE frame.py [--batches=N] [--rows=N]
       frame.py --dry-run [--batches=N] [--rows=N]

All memory is of one pool: moiety.numba's, which serves CuPy as well, by
cupy.cuda.set_allocator(). The recorder of the pool writes FILE. Prints a line
of JSON: the batches, the rows, a sum over the results, which depends on these
two alone, the most that the pool had reserved, and versions. --dry-run does the
same with NumPy on the CPU and records nothing, to show what the sum has to be.
"""

import argparse
import gc
import importlib.metadata
import json
import os
import sys

import frame_work


class Missing(Exception):
    """What a recording needs is not here."""


def import_cupy():
    try:
        import cupy
    except ImportError as error:
        raise Missing(f"CuPy is not installed: {error}") from error
    return cupy


def import_numba():
    """numba.cuda, with a context on Moiety's plugin."""
    os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "moiety.numba"
    try:
        from numba import cuda
    except ImportError as error:
        raise Missing(f"numba is not installed: {error}") from error
    if not cuda.is_available():
        raise Missing("numba finds no CUDA device")
    cuda.current_context()
    return cuda


def pool_of_numba():
    import moiety.numba

    try:
        return moiety.numba.pool()
    except moiety.Error as error:
        raise Missing(f"Moiety makes no pool: {error}") from error


def give_cupy(cupy, pool):
    """From now on CuPy's arrays are in the pool's memory."""
    memory = cupy.cuda

    def allocate(size_bytes):
        if size_bytes == 0:
            return memory.MemoryPointer(memory.Memory(0), 0)
        block = pool.alloc(size_bytes, memory.get_current_stream())
        return memory.MemoryPointer(memory.UnownedMemory(
            block.address, size_bytes, block, pool.device), 0)

    memory.set_allocator(allocate)


class OnGpu:
    """Arrays of CuPy, and kernels of numba over their rows."""

    THREADS = 128

    def __init__(self):
        self.xp = import_cupy()
        self.cuda = import_numba()
        self.pool = pool_of_numba()
        give_cupy(self.xp, self.pool)
        self._kernels = {}

    def empty(self, count, dtype):
        """Numba's array, seen as CuPy's: the same memory."""
        if count == 0:
            return self.xp.empty(0, dtype)
        return self.xp.asarray(self.cuda.device_array(count, dtype))

    def for_rows(self, work, count, *arrays):
        """work(row, *arrays) for each row."""
        if count == 0:
            return
        if work not in self._kernels:
            self._kernels[work] = self._kernel(work)
        blocks = -(-count // self.THREADS)
        self._kernels[work][blocks, self.THREADS](count, *arrays)

    def _kernel(self, work):
        grid = self.cuda.grid
        on_device = self.cuda.jit(device=True)(work)

        @self.cuda.jit
        def kernel(count, data, starts, offsets, out):
            row = grid(1)
            if row < count:
                on_device(row, data, starts, offsets, out)

        return kernel

    def to_host(self, array):
        return self.xp.asnumpy(array)

    def figures(self):
        import moiety

        return {
            "peak_reserved_bytes": self.pool.stats().reserved_bytes_peak,
            "versions": {
                "moiety": moiety.__version__, "cupy": self.xp.__version__,
                "numba-cuda": importlib.metadata.version("numba-cuda")}}

    def end(self):
        """Ends the pool, and the recording with it."""
        gc.collect()
        self.xp.cuda.set_allocator(None)
        self.cuda.synchronize()
        self.cuda.current_context().reset()


class OnCpu:
    """The same in NumPy and plain Python."""

    def __init__(self):
        try:
            import numpy
        except ImportError as error:
            raise Missing(f"NumPy is not installed: {error}") from error
        self.xp = numpy

    def empty(self, count, dtype):
        return self.xp.empty(count, dtype)

    def for_rows(self, work, count, *arrays):
        for row in range(count):
            work(row, *arrays)

    def to_host(self, array):
        return array

    def figures(self):
        return {}

    def end(self):
        pass


def is_recorded(conf):
    return any(part.startswith("trace:") for part in conf.split(","))


def run(options):
    machine = OnCpu() if options.dry_run else OnGpu()
    total = frame_work.run_batches(machine, options.batches, options.rows)
    figures = machine.figures()
    machine.end()
    print(json.dumps({"batches": options.batches, "rows": options.rows,
                      "sum": total} | figures))


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--batches", type=int, default=120)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args(arguments)
    if options.batches < 1:
        parser.error("--batches is less than 1")
    if options.rows < 2:
        parser.error("--rows is less than 2")
    if not options.dry_run and not is_recorded(
            os.environ.get("MOIETY_CONF", "")):
        parser.error("MOIETY_CONF has no trace:FILE, so nothing would be "
                     "recorded; --dry-run needs none")
    return options


def main(arguments):
    options = parse(arguments)
    try:
        run(options)
    except Missing as missing:
        print(f"frame: {missing}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
