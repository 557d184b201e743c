# SPDX-License-Identifier: Apache-2.0
"""The time of a step of the same program on several allocators, in one process
that changes its allocator every so many steps: on a host whose processors are not
always as fast, processes of their own cannot be compared.

    torch_turns.py [--expandable] [--program NAME | --checkpoints] [--turns N]
                   [--without-lists]

The program is one of torch_zoo.py, or else the GPT of torch_gpt.py, 15 steps a turn.

The allocators are PyTorch's (with --expandable its expandable segments), Moiety's
with what MOIETY_CONF says, and one that has a list for each size and nothing else.
Prints a row of JSON for each of them: milliseconds a step, of each turn, also by
part, with a loop on the processor and one of launches, which allocate nothing; and
what calls took when they were timed. Needs a GPU, PyTorch, the package `moiety`,
and torch_turns.cc compiled:

    T=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))')
    g++ -std=c++17 -O2 -shared -fPIC torch_turns.cc -o libturns.so \\
        -I ../.. -I $T/include -I $T/include/torch/csrc/api/include \\
        -I /usr/local/cuda/include -L $T/lib -lc10 -lc10_cuda
    TURNS=$PWD/libturns.so python3 torch_turns.py
"""

import argparse
import collections
import ctypes
import gc
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--expandable", action="store_true")
parser.add_argument("--program")
parser.add_argument("--checkpoints", action="store_true")
parser.add_argument("--without-lists", action="store_true")
parser.add_argument("--turns", type=int, default=12)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--width", type=int, default=768)
arguments = parser.parse_args()

if arguments.expandable:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch  # noqa: E402
import torch_gpt  # noqa: E402
import torch_zoo  # noqa: E402

turns = ctypes.CDLL(os.environ["TURNS"])
turns.turns_microseconds.restype = ctypes.c_double
turns.turns_note_native()

import moiety.torch  # noqa: E402

moiety.torch.enable()
torch.manual_seed(1)
torch.zeros(1, device="cuda")
turns.turns_begin(torch.cuda.device_count())

NAMES = ["expandable" if arguments.expandable else "native", "moiety",
         *([] if arguments.without_lists else ["lists"])]
WARM_TURNS = 2
TIMED_TURNS = 4
LOOPS = 100
UNTIMED, TIMED, FENCED = range(3)

turns.turns_take(0, UNTIMED)
on_device = torch.zeros(64, device="cuda")
on_host = torch.zeros(64)


class Watch:
    """Milliseconds by part."""

    def __init__(self):
        self.parts = collections.Counter()
        self.begin = time.perf_counter()

    def end(self, part):
        now = time.perf_counter()
        self.parts[part] += 1e3 * (now - self.begin)
        self.begin = now


def gpt():
    """What makes its step of a number, by parts, and how many steps it has."""
    model = torch_gpt.Model(arguments.layers, arguments.width,
                            arguments.checkpoints).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(number, watch):
        loss = torch_gpt.loss_of(model, torch_gpt.words(
            torch_gpt.LENGTHS[number]))
        watch.end("forward")
        loss.backward()
        watch.end("backward")
        optimizer.step()
        watch.end("optimizer")
        optimizer.zero_grad(set_to_none=True)
        del loss
        watch.end("zero")

    return step, len(torch_gpt.LENGTHS)


def of_zoo(name):
    """The same, as one part."""
    make, count = torch_zoo.make(name, "cuda")

    def step(number, watch):
        make(number)
        watch.end("step")

    return step, count


step, count = of_zoo(arguments.program) if arguments.program else gpt()


def turn(subject, timing):
    """All steps; milliseconds a step, by parts."""
    torch.cuda.synchronize()
    gc.collect()
    turns.turns_take(subject, timing)
    watch = Watch()
    for number in range(count):
        step(number, watch)
        for _ in range(LOOPS):
            on_device.add_(1)
        watch.end("launches")
        for _ in range(LOOPS):
            on_host.add_(1)
        watch.end("processor")
    torch.cuda.synchronize()
    watch.end("rest")
    return {part: round(ms / count, 4)
            for part, ms in watch.parts.items()}


def rounds(number, timing):
    """Turns of each subject, each time in another order."""
    found = [[] for _ in NAMES]
    order = list(range(len(NAMES)))
    for _ in range(number):
        for subject in order:
            found[subject].append(turn(subject, timing))
        order.append(order.pop(0))
    return found


def calls(timing):
    """Microseconds a step in allocations and in frees, by subject."""
    rounds(TIMED_TURNS, timing)
    steps = TIMED_TURNS * count
    return [[round(turns.turns_microseconds(subject, kind) / steps, 1)
             for kind in range(2)] for subject in range(len(NAMES))]


rounds(WARM_TURNS, UNTIMED)
plain = rounds(arguments.turns, UNTIMED)
timed = calls(TIMED)
fenced = calls(FENCED)
for subject, name in enumerate(NAMES):
    print(json.dumps({
        "kind": "torch-turns", "subject": name,
        "program": arguments.program or "gpt",
        "checkpoints": arguments.checkpoints,
        "conf": os.environ.get("MOIETY_CONF", ""), "turns": plain[subject],
        "alloc_free_us_per_step": timed[subject],
        "alloc_free_us_per_step_fenced": fenced[subject],
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name()}))
