# SPDX-License-Identifier: Apache-2.0
"""How long pinned memory takes to be there, by each library that Python has.

    pinned_start.py [--gib=N] [--subject=NAME]... [--processes=N]

Each subject pins N GiB (16 if nothing is said) in a process of its own, and gives
them back. Meanwhile another thread asks the driver for its free memory, over and
over: `others_ns` is its longest wait, for Python's lock too. Each round starts one process of each subject,
one after the other; N rounds, 2 if nothing is said. Prints a row of JSON for each:
`ready_ns`, `end_ns`, `others_ns`; or `skipped` and why. Subjects:

driver             cuMemHostAlloc
register           one cudaHostRegister of memory that eight threads have touched
torch              torch.empty(pin_memory=True)
torch_register     the same with pinned_use_cuda_host_register and eight threads
torch_moiety       the same with moiety.torch.enable(pinned=True)
cupy               cupy.cuda.alloc_pinned_memory()
rmm                rmm.mr.PinnedHostMemoryResource
moiety             moiety.HostArena().reserve()
moiety_small       the same without transparent huge pages

The first row of a machine may be slow: some are given their memory as they use it. It
needs CUDA and a GPU, and for a subject its package.
"""

import argparse
import ctypes
import json
import mmap
import os
import subprocess
import sys
import threading
import time

GIB = 1 << 30
THREADS = 8
PR_SET_THP_DISABLE = 41
PROCESS_LIMIT_S = 300
REGISTER = "pinned_use_cuda_host_register:True,pinned_num_register_threads:8"

now = time.monotonic_ns


class Bystander:
    """A thread that calls the driver, and notes its longest wait."""

    def __init__(self, cuda, context):
        self._cuda = cuda
        self._context = context
        self._is_over = threading.Event()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.longest_ns = 0

    def _run(self):
        check(self._cuda.cuCtxSetCurrent(self._context))
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        while not self._is_over.is_set():
            begun = now()
            check(self._cuda.cuMemGetInfo_v2(ctypes.byref(free),
                                             ctypes.byref(total)))
            self.longest_ns = max(self.longest_ns, now() - begun)
            self._is_ready.set()

    def __enter__(self):
        self._thread.start()
        self._is_ready.wait()
        self.longest_ns = 0
        return self

    def __exit__(self, kind, error, trace):
        self._is_over.set()
        self._thread.join()


def check(code):
    if code:
        raise RuntimeError(f"the driver returned {code}")


def driver(cuda, size):
    address = ctypes.c_void_p()

    def end():
        check(cuda.cuMemFreeHost(address))

    check(cuda.cuMemHostAlloc(ctypes.byref(address), ctypes.c_size_t(size), 3))
    return end


def register(cuda, size):
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    part = size // THREADS
    threads = [threading.Thread(target=ctypes.memset,
                                args=(base + i * part, 1, part))
               for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(cuda.cuMemHostRegister_v2(ctypes.c_void_p(base),
                                    ctypes.c_size_t(size), 3))
    return lambda: check(cuda.cuMemHostUnregister(ctypes.c_void_p(base)))


def torch(_cuda, size):
    import torch as package
    kept = [package.empty(size, dtype=package.uint8, pin_memory=True)]

    def end():
        kept.clear()
        package._C._host_emptyCache()

    return end


def torch_moiety_prepare():
    import moiety.torch
    moiety.torch.enable(pinned=True)


def cupy(_cuda, size):
    import cupy as package
    kept = [package.cuda.alloc_pinned_memory(size)]

    def end():
        kept.clear()
        package.get_default_pinned_memory_pool().free_all_blocks()

    return end


def rmm(_cuda, size):
    import rmm.mr
    resource = rmm.mr.PinnedHostMemoryResource()
    address = resource.allocate(size)
    return lambda: resource.deallocate(address, size)


def moiety(_cuda, size):
    import moiety as package
    arena = package.HostArena()
    arena.reserve(size)
    return arena.close


def moiety_small_prepare():
    check(ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))


# A function that pins, another that is called before the time, PyTorch's settings.
SUBJECTS = {
    "driver": (driver, None, ""),
    "register": (register, None, ""),
    "torch": (torch, None, ""),
    "torch_register": (torch, None, REGISTER),
    "torch_moiety": (torch, torch_moiety_prepare, ""),
    "cupy": (cupy, None, ""),
    "rmm": (rmm, None, ""),
    "moiety": (moiety, None, ""),
    "moiety_small": (moiety, moiety_small_prepare, ""),
}


def open_driver():
    """The driver, and the primary context of device 0, current."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, device = ctypes.c_void_p(), ctypes.c_int()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    return cuda, context


def measure(name, size):
    pin, prepare, _ = SUBJECTS[name]
    cuda, context = open_driver()
    if prepare:
        prepare()
    pin(cuda, 2 << 20)()  # imports, and what a first call makes
    with Bystander(cuda, context) as bystander:
        begun = now()
        end = pin(cuda, size)
        ready_ns = now() - begun
    # Once its last call is over: it may have begun with ours.
    others_ns = bystander.longest_ns
    begun = now()
    end()
    return {"ready_ns": ready_ns, "end_ns": now() - begun,
            "others_ns": others_ns}


def emit(name, process, size, fields):
    print(json.dumps({"kind": "pinned-start", "subject": name,
                      "process": process, "size_bytes": size, **fields},
                     separators=(",", ":")), flush=True)


def run_in_child(name, process, gib):
    environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=SUBJECTS[name][2])
    try:
        child = subprocess.run(
            [sys.executable, __file__, f"--child={name}", f"--gib={gib}"],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=PROCESS_LIMIT_S, text=True, check=False)
    except subprocess.TimeoutExpired:
        return emit(name, process, gib * GIB,
                    {"skipped": f"not over after {PROCESS_LIMIT_S} s"})
    lines = child.stdout.splitlines() or [""]
    if child.returncode:
        said = child.stderr.strip().splitlines() or ["nothing"]
        return emit(name, process, gib * GIB, {"skipped": said[-1]})
    return emit(name, process, gib * GIB, json.loads(lines[-1]))


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--gib", type=int, default=16)
    parser.add_argument("--subject", action="append", choices=SUBJECTS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--child", choices=SUBJECTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child, options.gib * GIB)))
        return
    for process in range(options.processes):
        for name in options.subject or SUBJECTS:
            run_in_child(name, process, options.gib)


if __name__ == "__main__":
    main()
