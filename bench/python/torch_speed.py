# SPDX-License-Identifier: Apache-2.0
"""Whether the device is as fast on an allocator's memory: work that streams, that
reads at random, that goes from tensor to tensor, and that computes.

    torch_speed.py SUBJECT

SUBJECT is native, expandable, or moiety on "mapped" or "driver" memory. Prints
one row of JSON: microseconds of each, the mean of several after three that are
not counted. It takes 32 GiB of the device.
"""

import argparse
import json
import os

parser = argparse.ArgumentParser()
parser.add_argument("subject",
                    choices=("native", "expandable", "mapped", "driver"))
subject = parser.parse_args().subject

if subject == "expandable":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch  # noqa: E402

if subject in ("mapped", "driver"):
    import moiety.torch
    moiety.torch.enable(memory=subject)

MIB, GIB = 1 << 20, 1 << 30


def tensor(bytes_, columns=None):
    shape = (bytes_ // 2,) if columns is None else (bytes_ // 2 // columns,
                                                    columns)
    return torch.zeros(shape, dtype=torch.float16, device="cuda")


def time_of(work, count=20):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for i in range(3 + count):
        if i == 3:
            begin.record()
        work()
    end.record()
    torch.cuda.synchronize()
    return round(begin.elapsed_time(end) / count * 1000, 1)


def streaming():
    source, target = tensor(4 * GIB), tensor(4 * GIB)
    return time_of(lambda: torch.add(source, 1, out=target))


def from_one_to_another(bytes_, count):
    tensors = [tensor(bytes_) for _ in range(count)]
    return time_of(lambda: [one.add_(1) for one in tensors], 5)


def at_random():
    table, rows = tensor(16 * GIB, 256), tensor(2 * GIB, 256)
    index = torch.randint(table.shape[0], (rows.shape[0],), device="cuda")
    return time_of(lambda: torch.index_select(table, 0, index, out=rows))


def computing():
    left, right, product = (tensor(128 * MIB, 8192) for _ in range(3))
    return time_of(lambda: torch.mm(left, right, out=product))


print(json.dumps({
    "kind": "torch-speed", "subject": subject,
    "device": torch.cuda.get_device_name(), "add_4gib_us": streaming(),
    "add_400_of_24mib_us": from_one_to_another(24 * MIB, 400),
    "add_2000_of_2mib_us": from_one_to_another(2 * MIB, 2000),
    "gather_512b_us": at_random(), "matmul_8192_us": computing()}))
