# SPDX-License-Identifier: Apache-2.0
"""A model that one process loads and others open: moiety.torch.load_once() beside
loading it in each process.

    load_once.py [--layers=N] [--width=N] [--others=N]

Saves a Llama of random weights, bfloat16, 3.4 GB if nothing is said. Then processes,
one after the other or together, make it and compute logits of the same tokens:

load    each loads it: from_pretrained(), and to the device
first   load_once() of a process that is alone and first
wait    load_once() of processes that start together: one loads, the others wait
open    load_once() of processes that start when the first has been killed, together

Prints a row of JSON for each process: milliseconds until the model is there, until its
logits are, and a digest of the logits, which is to be the same in all. Needs PyTorch and
transformers, a GPU, and the package `moiety`."""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import moiety
import moiety.regions
import moiety.torch
from regions import served

NAME = "llama"


def config_of(layers, width):
    from transformers import LlamaConfig
    return LlamaConfig(
        num_hidden_layers=layers, hidden_size=width, intermediate_size=4 * width,
        num_attention_heads=width // 128, num_key_value_heads=width // 128,
        vocab_size=32000, tie_word_embeddings=True)


def save(folder, layers, width):
    import torch
    from transformers import LlamaForCausalLM
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        LlamaForCausalLM(config_of(layers, width)).save_pretrained(folder)


def run(how, folder, path):
    """Imports and a context come first: they are the same in all."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.zeros(1, device="cuda")
    config = LlamaConfig.from_pretrained(folder)

    def load():
        return LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)

    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.monotonic()
    if how == "load":
        model = load().eval().to("cuda")
    else:
        model = moiety.torch.load_once(moiety.regions.connect(path), NAME, load,
                                       skeleton=lambda: LlamaForCausalLM(config))
    torch.cuda.synchronize()
    ready = time.monotonic()
    with torch.no_grad():
        logits = model(torch.arange(512, device="cuda")[None]).logits
    there = logits.view(torch.uint8).cpu()
    end = time.monotonic()
    print(json.dumps({
        "kind": "load_once", "how": how, "model_ms": round(1e3 * (ready - begun), 1),
        "logits_ms": round(1e3 * (end - begun), 1),
        "weights": sum(one.numel() * one.element_size()
                       for one in model.parameters()),
        "reserved": torch.cuda.memory_reserved(),
        "logits": hashlib.sha256(there.numpy().tobytes()).hexdigest()[:16],
        "commit": os.environ.get("MOIETY_COMMIT", "")}), flush=True)
    sys.stdin.readline()


class Process:
    def __init__(self, how, folder, path):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--role", how, folder, path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def await_ready(self):
        while self.process.stdout.readline() != "ready\n":
            assert self.process.poll() is None
        return self

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def row(self):
        return self.process.stdout.readline()

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def together(hows, folder, path):
    """Starts them, has them begin at once, and prints their rows."""
    made = [Process(how, folder, path) for how in hows]
    for one in made:
        one.await_ready()
    for one in made:
        one.go()
    for one in made:
        print(one.row(), end="", flush=True)
    for one in made:
        one.kill()


def main():
    if sys.argv[1:2] == ["--role"]:
        return run(*sys.argv[2:])
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--others", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, served() as path:
        save(folder, options.layers, options.width)
        together(["load"], folder, path)  # the files are in memory then
        together(["load"], folder, path)
        together(["load"] * options.others, folder, path)
        together(["first"], folder, path)
        together(["open"], folder, path)
        together(["open"] * options.others, folder, path)
        with moiety.regions.connect(path) as connection:
            connection.drop(NAME)
        together(["wait"] * (1 + options.others), folder, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
