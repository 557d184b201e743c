# SPDX-License-Identifier: Apache-2.0
"""The time from a SIGINT to the end of a call that waits, at random moments.

    interrupts.py [--times=N] [--gib=N] [--seconds=N]

The calls: a reserve of pinned memory; an allocation at an arena's limit, whose memory
is in use by the device; and synchronize() of a pool. Prints a row of JSON for each:
milliseconds from os.kill() to the exception, each time; bytes that stayed; and what the
process has pinned and locked (VmPin, VmLck) before and after. Needs a GPU, PyTorch for
work that lasts, and the package `moiety`."""

import argparse
import json
import os
import random
import signal
import threading
import time

import torch

import moiety

MIB = 1 << 20


def pinned_kib():
    with open("/proc/self/status", encoding="ascii") as status:
        return [int(line.split()[1]) for line in status
                if line.startswith(("VmPin:", "VmLck:"))]


def interrupted(call, most_seconds):
    """Milliseconds until `call` ended; None if it was over before."""
    sent = []

    def send():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(random.uniform(0, most_seconds), send)
    timer.start()
    try:
        call()
        timer.cancel()
        timer.join()
        if not sent:
            return None
        time.sleep(1)  # the signal may come after it
    except KeyboardInterrupt:
        return 1e3 * (time.perf_counter() - sent[0])
    return None


def reserve(options):
    size = options.gib << 30
    with moiety.HostArena(limit=size) as arena:
        ms = interrupted(lambda: arena.reserve(size), options.seconds)
        return ms, arena.total_bytes


def wait(options):
    stream = torch.cuda.Stream()
    with moiety.HostArena(limit=2 * MIB, wait_ms=60000) as arena:
        block = arena.alloc(2 * MIB)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(options.cycles)
        block.free(stream.cuda_stream)
        ms = interrupted(lambda: arena.alloc(2 * MIB), options.seconds)
        stream.synchronize()
        return ms, arena.total_bytes


def synchronize(options):
    stream = torch.cuda.Stream()
    with moiety.Pool() as pool:
        block = pool.alloc(2 * MIB, stream.cuda_stream)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(options.cycles)
        block.free(stream.cuda_stream)
        ms = interrupted(pool.synchronize, options.seconds)
        stream.synchronize()
        return ms, pool.total_bytes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--gib", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--cycles", type=int, default=4_000_000_000)
    options = parser.parse_args()
    random.seed(1)
    torch.cuda.init()
    for call in (reserve, wait, synchronize):
        call(options)
        before = pinned_kib()
        ended = [call(options) for _ in range(options.times)]
        print(json.dumps({
            "kind": "interrupts", "call": call.__name__,
            "ms": [ms and round(ms, 2) for ms, _ in ended],
            "kept_bytes": [kept for _, kept in ended],
            "pinned_kib_before": before, "pinned_kib_after": pinned_kib()}))


if __name__ == "__main__":
    main()
