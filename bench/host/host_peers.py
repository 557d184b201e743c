# SPDX-License-Identifier: Apache-2.0
"""What staging buffers cost in pools of pinned memory that Python has.

    host_peers.py [--cell-ms=MS] [--process=N] [--until=NS]

//bench:host calls it. Prints rows as that does: for PyTorch's pinned cache and
CuPy's pinned pool, what it takes to get a buffer and to give it back, while
nothing uses it (NAME) and after a copy to the device was enqueued from it
(NAME_copy, of which only getting and giving back count, with two looks at the
clock: `python_clock`). The interpreter's own time is in all of them, as in
every program that uses them. A package that is missing, or finds no device, is
a row that says so.

--until is of the monotonic clock; nothing is begun after it.
"""

import gc
import json
import statistics
import sys
import time

SIZES = (64 << 10, 1 << 20, 16 << 20)
BATCHES_MIN = 5
BATCHES_MAX = 201
BATCHES_AIM = 50
TURNS_MAX = 1 << 22
# Copies that are under way at most, as in host_staging.c.
COPIES_PENDING = 8

now = time.monotonic_ns


class Missing(Exception):
    """The package cannot be used here."""


class Torch:
    """A tensor in pinned memory; the cache is asked through its constructor."""

    name = "torch"

    def __init__(self, size_bytes):
        try:
            import torch
        except ImportError as error:
            raise Missing(f"PyTorch is not installed: {error}") from error
        if not torch.cuda.is_available():
            raise Missing("PyTorch finds no CUDA device")
        self.torch = torch
        self.size_bytes = size_bytes
        self.version = torch.__version__
        self.stream = torch.cuda.Stream()
        self.there = torch.empty(size_bytes, dtype=torch.uint8, device="cuda")

    def take(self):
        return self.torch.empty(self.size_bytes, dtype=self.torch.uint8,
                                pin_memory=True)

    def copy(self, buffer):
        with self.torch.cuda.stream(self.stream):
            self.there.copy_(buffer, non_blocking=True)

    def wait(self):
        self.stream.synchronize()

    def check(self):
        buffer = self.take()
        if not buffer.is_pinned():
            return "torch: the buffer is not pinned"
        buffer.fill_(0xa5)
        self.copy(buffer)
        self.wait()
        is_there = bool((self.there == 0xa5).all().item())
        return None if is_there else "torch: the bytes did not arrive"


class Cupy:
    """A PinnedMemoryPointer of the default pool."""

    name = "cupy"

    def __init__(self, size_bytes):
        try:
            import cupy
            import numpy
        except ImportError as error:
            raise Missing(f"CuPy is not installed: {error}") from error
        try:
            cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise Missing(f"CuPy finds no CUDA device: {error}") from error
        self.cupy = cupy
        self.numpy = numpy
        self.size_bytes = size_bytes
        self.version = cupy.__version__
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.there = cupy.empty(size_bytes, dtype=cupy.uint8)

    def take(self):
        return self.cupy.cuda.alloc_pinned_memory(self.size_bytes)

    # The pool knows no streams: it hands the buffer out again while the copy
    # is pending. So there is no `cupy_copy` that would be right.
    copy = None

    def check(self):
        buffer = self.take()
        here = self.numpy.frombuffer(buffer, self.numpy.uint8, self.size_bytes)
        here[:] = 0xa5
        self.there.data.copy_from_host_async(buffer.ptr, self.size_bytes,
                                             self.stream)
        self.stream.synchronize()
        is_there = bool((self.there == 0xa5).all())
        return None if is_there else "cupy: the bytes did not arrive"


def pairs(peer, count):
    take = peer.take
    begun = now()
    for _ in range(count):
        buffer = take()
        del buffer
    return now() - begun


def pairs_with_copies(peer, count):
    counted = 0
    for i in range(1, count + 1):
        begun = now()
        buffer = peer.take()
        counted += now() - begun
        peer.copy(buffer)
        begun = now()
        del buffer
        counted += now() - begun
        if i % COPIES_PENDING == 0:
            peer.wait()
    peer.wait()
    return counted


def clock(_, count):
    counted = 0
    for _ in range(2 * count):
        begun = now()
        counted += now() - begun
    return counted


def measure(loop, peer, turns, cell_ns):
    """ns per pair of batches of `turns` or more, and how many are in one."""
    while True:
        begun = now()
        loop(peer, turns)
        if now() - begun >= cell_ns // BATCHES_AIM // 2 or turns >= TURNS_MAX:
            break
        turns *= 2
    values = []
    end = now() + cell_ns
    while len(values) < BATCHES_MIN or (now() < end and
                                        len(values) < BATCHES_MAX):
        values.append(loop(peer, turns) / turns)
    return values, turns


def emit(process, subject, fields, skipped=None, error=None):
    print(json.dumps({"what": "staging", "subject": subject,
                      "process": process, **fields, "skipped": skipped,
                      "error": error}, separators=(",", ":")), flush=True)


def measure_row(options, subject, loop, peer, fields, turns=1):
    if options["until"] and now() >= options["until"]:
        emit(options["process"], subject, fields, skipped="no time was left")
        return
    try:
        values, turns = measure(loop, peer, turns,
                                options["cell-ms"] * 1000000)
    except Exception as error:  # whatever a package raises is a row
        emit(options["process"], subject, fields,
             error=f"{type(error).__name__}: {error}")
        return
    emit(options["process"], subject, {
        **fields, "ns_median": round(statistics.median(values), 4),
        "ns_least": round(min(values), 4), "ns_most": round(max(values), 4),
        "batches": len(values), "pairs": len(values) * turns})


def measure_peer(options, kind, size_bytes):
    fields = {"size_bytes": size_bytes}
    try:
        peer = kind(size_bytes)
        why = peer.check()
    except Missing as error:
        emit(options["process"], kind.name, fields, skipped=str(error))
        return
    except Exception as error:  # whatever a package raises is a row
        why = f"{type(error).__name__}: {error}"
    if why:
        emit(options["process"], kind.name, fields, error=why)
        return
    fields["version"] = peer.version
    measure_row(options, kind.name, pairs, peer, fields)
    if peer.copy:
        measure_row(options, f"{kind.name}_copy", pairs_with_copies, peer,
                    fields, COPIES_PENDING)


def parse(arguments):
    options = {"cell-ms": 200, "process": 0, "until": 0}
    for argument in arguments:
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or name not in options or \
                not equals or not value.isdecimal():
            return None
        options[name] = int(value)
    return options


def main(arguments):
    options = parse(arguments)
    if options is None:
        print("host_peers: bad argument; it takes --cell-ms=MS --process=N "
              "--until=NS", file=sys.stderr)
        return 2
    gc.disable()
    measure_row(options, "python_clock", clock, None, {"size_bytes": SIZES[0]})
    for size_bytes in SIZES:
        for kind in (Torch, Cupy):
            measure_peer(options, kind, size_bytes)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
