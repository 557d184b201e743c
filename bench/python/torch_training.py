# SPDX-License-Identifier: Apache-2.0
"""Device memory and the time of a step: a GPT of 12 layers whose lengths vary,
with and without activation checkpoints, on PyTorch's allocator, on that with
expandable segments, and on Binade.

    torch_training.py SUBJECT [--checkpoints] [--steps N]

SUBJECT is native, expandable or binade, with what BINADE_CONF says. Prints one
row of JSON.
"""

import argparse
import json
import os
import resource
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("subject", choices=("native", "expandable", "binade"))
parser.add_argument("--checkpoints", action="store_true")
parser.add_argument("--steps", type=int, default=90)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--width", type=int, default=768)
arguments = parser.parse_args()

if arguments.subject == "expandable":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

if arguments.subject == "binade":
    import binade.torch
    binade.torch.enable()

HEADS = 12


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(width)
        self.attend = torch.nn.Linear(width, 3 * width)
        self.project = torch.nn.Linear(width, width)
        self.norm2 = torch.nn.LayerNorm(width)
        self.feed = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
            torch.nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attend(self.norm1(x)).view(
            batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(
            *parts, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.feed(self.norm2(x))


class Model(torch.nn.Module):
    def __init__(self, layers, width):
        super().__init__()
        self.embed = torch.nn.Embedding(16384, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.head = torch.nn.Linear(width, 16384)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = (checkpoint(block, x, use_reentrant=False)
                 if arguments.checkpoints else block(x))
        return self.head(x)


torch.manual_seed(1)
model = Model(arguments.layers, arguments.width).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
lengths = [128 + 64 * ((i * 7) % 15) for i in range(arguments.steps)]
begin = None
for step, length in enumerate(lengths):
    if step == arguments.steps // 2:
        torch.cuda.synchronize()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        begin = time.perf_counter()
    tokens = torch.randint(0, 16384, (8, length), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(
            model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
torch.cuda.synchronize()
took = time.perf_counter() - begin
timed = arguments.steps - arguments.steps // 2
end = resource.getrusage(resource.RUSAGE_SELF)
stats = torch.cuda.memory_stats()
json.dump({
    "kind": "torch-training", "subject": arguments.subject,
    "checkpoints": arguments.checkpoints, "steps": arguments.steps,
    "ms_per_step": round(1e3 * took / timed, 3),
    "cpu_ms_per_step": round(1e3 * (end.ru_utime - usage.ru_utime +
                                    end.ru_stime - usage.ru_stime) / timed, 3),
    "system_ms_per_step": round(1e3 * (end.ru_stime - usage.ru_stime) / timed,
                                3),
    "faults_per_step": round((end.ru_minflt - usage.ru_minflt) / timed, 1),
    "conf": os.environ.get("BINADE_CONF", ""),
    "reserved_peak_bytes": stats["reserved_bytes.all.peak"],
    "live_peak_bytes": stats["allocated_bytes.all.peak"],
    "loss": loss.item(), "torch": torch.__version__,
    "device": torch.cuda.get_device_name()}, sys.stdout)
print()
