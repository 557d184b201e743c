# SPDX-License-Identifier: Apache-2.0
"""Serving a language model with one contiguous cache of keys and values for each
request, as servers did before paged attention.

usage: serving.py OUT REQUESTS.csv [--requests=N] [--speed=X]

Writes OUT.pickle and OUT.json (recording.py). REQUESTS.csv has
TIMESTAMP,ContextTokens,GeneratedTokens: the Azure LLM inference trace 2023,
conversation (Microsoft, CC-BY 4.0). A clock without waiting: requests arrive
when the file says, X times as fast; each step takes 30 ms, 20 ms more for each
1024 tokens that begin in it; a step generates one token of each request. The
cache of a request has room for all its tokens from the start. What a model of
32 layers allocates on the way is allocated too: in a prefill, for each fourth
layer, what 4096 wide activations take; in each 16th decoding step the same for
the batch.
"""

import argparse
import csv
import datetime
import itertools
import sys

import recording

CACHE_BYTES_PER_TOKEN = 128 << 10  # 32 layers, 8 heads of 128, K and V, fp16
WIDTH = 4096
QKV_WIDTH = WIDTH + 2048
MLP_WIDTH = 14336
VOCABULARY = 128256
STEP_S = 0.03
PREFILL_S_PER_TOKEN = 0.02 / 1024
# Steps and layers that are left out, as they allocate what others did.
PREFILL_LAYERS, DECODING_LAYERS, DECODING_STEPS = 8, 2, 16


class BadRequests(Exception):
    """The file of requests is not what it should be."""


def _seconds(text):
    """Of a time with more digits than datetime takes."""
    whole, fraction = text.split(".")
    at = datetime.datetime.fromisoformat(whole)
    return at.timestamp() + int(fraction) / 10 ** len(fraction)


def _request(row):
    """(time in seconds, context tokens, generated tokens)"""
    tokens = int(row["ContextTokens"]), int(row["GeneratedTokens"])
    if min(tokens) < 1:
        raise ValueError(f"tokens {tokens}")
    return _seconds(row["TIMESTAMP"]), *tokens


def read_requests(path, count):
    """(arrival in seconds, context tokens, generated tokens) of the first
    `count` requests; BadRequests if there are fewer, or a line is wrong."""
    found = []
    with open(path, newline="", encoding="ascii") as lines:
        for number, row in enumerate(
                itertools.islice(csv.DictReader(lines), count), 2):
            try:
                found.append(_request(row))
            except (KeyError, TypeError, ValueError) as error:
                raise BadRequests(f"{path}, line {number}: {error!r}"
                                  ) from error
    if len(found) < count:
        raise BadRequests(f"{path} has {len(found)} requests, not {count}")
    first = found[0][0]
    return [(arrival - first, *tokens) for arrival, *tokens in found]


def run_layers(empty, tokens, layers):
    """What the layers of one pass allocate, in the order in which they do.
    `empty` allocates so many bytes, which are freed with the last reference."""
    x = empty(2 * tokens * WIDTH)
    for _ in range(layers):
        normed = empty(2 * tokens * WIDTH)
        qkv = empty(2 * tokens * QKV_WIDTH)
        del normed
        seen = empty(2 * tokens * WIDTH)
        del qkv
        x = empty(2 * tokens * WIDTH)
        del seen
        up = empty(2 * tokens * 2 * MLP_WIDTH)
        gated = empty(2 * tokens * MLP_WIDTH)
        del up
        x = empty(2 * tokens * WIDTH)
        del gated
    del x


def serve(empty, requests, speed):
    running = []  # [tokens left, cache]
    waiting = list(reversed(requests))
    now_s, step = 0.0, 0
    while waiting or running:
        if not running and waiting[-1][0] / speed > now_s:
            now_s = waiting[-1][0] / speed
        while waiting and waiting[-1][0] / speed <= now_s:
            _, context, generated = waiting.pop()
            running.append([generated, empty(
                CACHE_BYTES_PER_TOKEN * (context + generated))])
            run_layers(empty, context, PREFILL_LAYERS)
            logits = empty(2 * VOCABULARY)
            del logits
            now_s += PREFILL_S_PER_TOKEN * context
        if step % DECODING_STEPS == 0:
            run_layers(empty, len(running), DECODING_LAYERS)
        for request in running:
            request[0] -= 1
        running = [request for request in running if request[0] > 0]
        now_s += STEP_S
        step += 1


def record(options):
    requests = read_requests(options.requests_file, options.requests)
    torch = recording.torch_on_gpu()

    def empty(size_bytes):
        return torch.empty(size_bytes, dtype=torch.uint8, device="cuda")

    with recording.recorded(options.out, program="serving.py",
                            requests=options.requests, speed=options.speed):
        serve(empty, requests, options.speed)


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("requests_file")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--speed", type=float, default=4.0)
    options = parser.parse_args(arguments)
    if options.requests < 1:
        parser.error("--requests is less than 1")
    if not 0 < options.speed < 1e6:
        parser.error("--speed is not between 0 and 1e6")
    return options


def main(arguments):
    try:
        record(parse(arguments))
    except (recording.Missing, BadRequests, OSError) as error:
        print(f"serving: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
