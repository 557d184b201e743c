# SPDX-License-Identifier: Apache-2.0
"""PyTorch's pinned memory: the time of a pair, and the bytes that it holds.

    torch_pinned.py [--subject=NAME]... [--processes=N]

A pair is torch.empty(n, pin_memory=True) and its end: idle, or, up to 1 MiB, with a
copy to the device that the end does not wait for. The device is waited for after
each 64 MiB of copies, within the time. Subjects are PyTorch's allocator as it is
("default"), with cudaHostRegister by eight threads ("register"), with that and a
segment of 1 GiB that is reserved at the start ("segment"), and Moiety's. Each round
starts one process of each, one after the other; N rounds, 3 if nothing is said.
Prints rows of JSON:

torch-pinned-pair   ns of a pair by its length, the median of seven batches, and of
                    the first pair, which pins
torch-pinned-bytes  bytes held for each that is asked for, by random lengths: at the
                    end of filling, and the most held by the most asked for while
                    tensors come and go. Memory of a reserved segment that no block used
                    is not in PyTorch's statistics, and not in these

It takes up to 4 GiB of pinned memory. It says nothing of the work of a program, nor
of several threads.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time

CONF = "PYTORCH_CUDA_ALLOC_CONF"
REGISTER = "pinned_use_cuda_host_register:True,pinned_num_register_threads:8"
SUBJECTS = {"default": "", "register": REGISTER,
            "segment": f"{REGISTER},pinned_reserve_segment_size_mb:1024",
            "moiety": ""}
KIB, MIB = 1 << 10, 1 << 20
LENGTHS = (64 * KIB, MIB, 16 * MIB, 256 * MIB)
# Longest length, tensors at the end of filling, live ones of the others.
MIXES = ((64 * KIB, 2000, 200), (4 * MIB, 300, 100), (40 * MIB, 40, 24))
TURNS = 2000
BATCHES = 7
BATCH_NS = 50_000_000
WARM_PAIRS = 20
PROCESS_LIMIT_S = 600
PENDING_MOST = 64 * MIB

now = time.monotonic_ns


def emit(kind, subject, process, **fields):
    print(json.dumps({"kind": kind, "subject": subject, "process": process,
                      **fields}, separators=(",", ":")), flush=True)


def median_of(pair):
    for _ in range(WARM_PAIRS):
        pair()
    begun, turns = now(), 0
    while now() - begun < BATCH_NS:
        pair()
        turns += 1
    values = []
    for _ in range(BATCHES):
        begun = now()
        for _ in range(turns):
            pair()
        values.append((now() - begun) / turns)
    return round(statistics.median(values), 1)


def pairs(torch, subject, process):
    for length in LENGTHS:
        pending = 0
        target = torch.empty(length, dtype=torch.uint8, device="cuda")

        def idle():
            torch.empty(length, dtype=torch.uint8, pin_memory=True)

        def copied():
            nonlocal pending
            target.copy_(torch.empty(length, dtype=torch.uint8,
                                     pin_memory=True), non_blocking=True)
            pending += length
            if pending >= PENDING_MOST:
                torch.cuda.synchronize()
                pending = 0

        begun = now()
        idle()
        first_ns = now() - begun
        idle_ns = median_of(idle)
        copied_ns = median_of(copied) if length <= MIB else None
        torch.cuda.synchronize()
        emit("torch-pinned-pair", subject, process, length=length,
             first_ns=first_ns, idle_ns=idle_ns, copied_ns=copied_ns)


def held_bytes(torch, kind):
    """What all segments have, by a release's name for it."""
    stats = torch.cuda.host_memory_stats()
    name = "reserved_bytes" if "reserved_bytes.current" in stats \
        else "allocated_bytes"
    return stats[f"{name}.{kind}"]


def emptied(torch):
    """Bytes that stay, as a reserved segment does."""
    torch.cuda.synchronize()
    torch._C._host_emptyCache()
    torch.cuda.reset_peak_host_memory_stats()
    return held_bytes(torch, "current")


def lengths_of(most, count):
    random.seed(most)
    return [random.randint(1, most) for _ in range(count)]


def held_bytes_of(torch, subject, process):
    def pinned(length):
        return torch.empty(length, dtype=torch.uint8, pin_memory=True)

    for most, count, live in MIXES:
        before = emptied(torch)
        lengths = lengths_of(most, count)
        kept = [pinned(length) for length in lengths]
        filled = (held_bytes(torch, "current") - before) / sum(lengths)
        kept.clear()
        before = emptied(torch)
        asked = peak = most_held = 0
        for i, length in enumerate(lengths_of(most, TURNS)):
            if len(kept) == live:
                at = random.randrange(live)
                asked -= kept[at].numel()
                kept[at] = None
                kept[at] = pinned(length)
            else:
                kept.append(pinned(length))
            asked += length
            peak = max(peak, asked)
            if i % 20 == 0:
                most_held = max(most_held, held_bytes(torch, "current"))
        kept.clear()
        emit("torch-pinned-bytes", subject, process, most_length=most,
             filled=round(filled, 4),
             changing=round((most_held - before) / peak, 4))


def run_subject(subject, process):
    import torch
    if subject == "moiety":
        import moiety.torch
        moiety.torch.enable(pinned=True)
    torch.zeros(1, device="cuda")
    emit("torch-pinned-subject", subject, process, torch=torch.__version__,
         device=torch.cuda.get_device_name(), conf=os.environ.get(CONF, ""))
    held_bytes_of(torch, subject, process)
    pairs(torch, subject, process)


def environment_of(subject):
    rest = {name: text for name, text in os.environ.items() if name != CONF}
    return {**rest, CONF: SUBJECTS[subject]} if SUBJECTS[subject] else rest


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--subject", action="append", choices=SUBJECTS)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    subjects = options.subject or list(SUBJECTS)
    if options.process is not None:
        run_subject(subjects[0], options.process)
        return 0
    failed = 0
    for process in range(options.processes):
        for subject in subjects:
            done = subprocess.run(
                [sys.executable, __file__, f"--subject={subject}",
                 f"--process={process}"], check=False, timeout=PROCESS_LIMIT_S,
                env=environment_of(subject))
            if done.returncode:
                failed += 1
                emit("torch-pinned-subject", subject, process,
                     error=f"ended with {done.returncode}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
