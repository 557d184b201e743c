# SPDX-License-Identifier: Apache-2.0
"""A training whose batches come from a DataLoader with pin_memory=True: the time of
a step, the pinned bytes, and whether a byte is wrong.

    torch_loader.py SUBJECT [--data=images|texts] [--steps=N] [--workers=N]

SUBJECT is one of:

native    PyTorch's allocators
register  the same with cudaHostRegister by eight threads
moiety    moiety.torch.enable(), and PyTorch's pinned memory
pinned    moiety.torch.enable(pinned=True)

Workers, eight if nothing is said, make batches: 128 images of 224 x 224 for a network
of convolutions, or 16 texts for a GPT, of lengths that change. A worker adds up each
batch; the device adds up its copy, and `wrong` counts the batches that differ. Times
are of the second half of the steps, 200 in all if nothing is said. Prints one row of
JSON.
"""

import argparse
import json
import os
import statistics
import time

import torch_pinned

SUBJECTS = ("native", "register", "moiety", "pinned")

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("subject", choices=SUBJECTS)
parser.add_argument("--data", choices=("images", "texts"), default="images")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--workers", type=int, default=8)
arguments = parser.parse_args()
if arguments.subject == "register":
    os.environ[torch_pinned.CONF] = torch_pinned.REGISTER

import torch  # noqa: E402
import torch_gpt  # noqa: E402

IMAGES = 128
SIDE = 224
TEXTS = 16
WORDS_MOST = 2048
CLASSES = 100


def random_of(index):
    return torch.Generator().manual_seed(index)


class Images(torch.utils.data.Dataset):
    """Pixels, and the class of each image."""

    def __getitem__(self, index):
        pixels = torch.randint(256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8,
                               generator=random_of(index))
        return pixels, torch.arange(IMAGES) % CLASSES, total(pixels)

    def __len__(self):
        return arguments.steps


class Texts(torch.utils.data.Dataset):
    """Words, and which of them count."""

    def __getitem__(self, index):
        random = random_of(index)
        length = int(torch.randint(64, WORDS_MOST + 1, (), generator=random))
        words = torch.randint(torch_gpt.WORDS, (TEXTS, length),
                              generator=random)
        return words, torch.ones_like(words, dtype=torch.bool), total(words)

    def __len__(self):
        return arguments.steps


def total(tensor):
    return tensor.sum(dtype=torch.int64)


def convolutions():
    layers, width = [], 3
    for wider in (64, 128, 256, 512):
        layers += [torch.nn.Conv2d(width, wider, 3, stride=2, padding=1),
                   torch.nn.BatchNorm2d(wider), torch.nn.ReLU(),
                   torch.nn.Conv2d(wider, wider, 3, padding=1),
                   torch.nn.BatchNorm2d(wider), torch.nn.ReLU()]
        width = wider
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1),
                               torch.nn.Flatten(),
                               torch.nn.Linear(width, CLASSES))


def loss_of_images(model, pixels, classes):
    with torch.autocast("cuda", torch.bfloat16):
        return torch.nn.functional.cross_entropy(
            model(pixels.float().div_(255)).float(), classes)


def loss_of_texts(model, words, is_word):
    return torch_gpt.loss_of(model, words) * is_word.float().mean()


def train(model, loss_of, dataset):
    """The seconds of each step, and the number of wrong batches."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    times = []
    begun = time.perf_counter()
    for batch in torch.utils.data.DataLoader(
            dataset, batch_size=None, num_workers=arguments.workers,
            pin_memory=True):
        inputs, targets, sums = (one.cuda(non_blocking=True) for one in batch)
        wrong += total(inputs) != sums
        loss_of(model, inputs, targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.current_stream().synchronize()
        times.append(time.perf_counter() - begun)
        begun = time.perf_counter()
    return times, int(wrong)


def main():
    if arguments.subject in ("moiety", "pinned"):
        import moiety.torch
        moiety.torch.enable(pinned=arguments.subject == "pinned")
    torch.manual_seed(1)
    if arguments.data == "images":
        times, wrong = train(convolutions().cuda(), loss_of_images, Images())
    else:
        times, wrong = train(torch_gpt.Model(12, 768, False).cuda(),
                             loss_of_texts, Texts())
    late = [1000 * one for one in times[len(times) // 2:]]
    print(json.dumps({
        "kind": "torch-loader", "subject": arguments.subject,
        "data": arguments.data, "steps": len(times),
        "workers": arguments.workers, "wrong": wrong,
        "step_ms": round(statistics.median(late), 3),
        "slowest_ms": round(max(late), 3), "all_s": round(sum(times), 3),
        "pinned_bytes": torch_pinned.held_bytes(torch, "peak"),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
        "torch": torch.__version__,
    }, separators=(",", ":")))


if __name__ == "__main__":
    main()
