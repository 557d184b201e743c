# SPDX-License-Identifier: Apache-2.0
"""Training steps of a GPT-like model, 538 M parameters unless told otherwise.

usage: train.py OUT [--checkpoint] [--steps=N] [--width=N] [--layers=N]
                    [--length=N] [--batch=N]

Writes OUT.pickle and OUT.json (recording.py). Without --checkpoint each step
has the same length, and all activations are kept. With it they are computed
again, and each step has another length.
"""

import argparse
import random
import sys

import recording

HEAD_WIDTH = 64


def lengths_of(options):
    """How many tokens each sequence of a step has."""
    choose = random.Random(1)
    return [choose.randrange(options.length // 8, options.length + 1)
            if options.checkpoint else options.length
            for _ in range(options.steps)]


def record(options):
    torch = recording.torch_on_gpu()
    from gpt import Gpt, train

    torch.manual_seed(1)
    lengths = lengths_of(options)
    with recording.recorded(options.out, program="train.py",
                            options=vars(options), lengths=lengths):
        model = Gpt(options.width, options.layers, options.width // HEAD_WIDTH,
                    options.length, options.checkpoint).cuda()
        train(model, lengths, options.batch)


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args(arguments)
    for name in ("steps", "layers", "batch"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is less than 1")
    if options.length < 8:
        parser.error("--length is less than 8")
    if options.width < HEAD_WIDTH or options.width % HEAD_WIDTH:
        parser.error(f"--width is no multiple of {HEAD_WIDTH}")
    return options


def main(arguments):
    try:
        record(parse(arguments))
    except recording.Missing as missing:
        print(f"train: {missing}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
