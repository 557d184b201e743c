# SPDX-License-Identifier: Apache-2.0
"""Device memory and the time of a step: a GPT of 12 layers whose lengths vary,
with and without activation checkpoints, on PyTorch's allocator, on that with
expandable segments, and on Moiety.

    torch_training.py SUBJECT [--checkpoints] [--steps N]

SUBJECT is native, expandable or moiety, with what MOIETY_CONF says. Prints one
row of JSON.
"""

import argparse
import json
import os
import resource
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("subject", choices=("native", "expandable", "moiety"))
parser.add_argument("--checkpoints", action="store_true")
parser.add_argument("--steps", type=int, default=90)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--width", type=int, default=768)
arguments = parser.parse_args()

if arguments.subject == "expandable":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch  # noqa: E402
import torch_gpt  # noqa: E402

if arguments.subject == "moiety":
    import moiety.torch
    moiety.torch.enable()

torch.manual_seed(1)
model = torch_gpt.Model(arguments.layers, arguments.width,
                        arguments.checkpoints).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
begin = None
for step in range(arguments.steps):
    if step == arguments.steps // 2:
        torch.cuda.synchronize()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        begin = time.perf_counter()
    tokens = torch_gpt.words(
        torch_gpt.LENGTHS[step % len(torch_gpt.LENGTHS)])
    loss = torch_gpt.loss_of(model, tokens)
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
    "conf": os.environ.get("MOIETY_CONF", ""),
    "reserved_peak_bytes": stats["reserved_bytes.all.peak"],
    "live_peak_bytes": stats["allocated_bytes.all.peak"],
    "loss": loss.item(), "torch": torch.__version__,
    "device": torch.cuda.get_device_name()}, sys.stdout)
print()
