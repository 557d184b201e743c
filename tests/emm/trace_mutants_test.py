# SPDX-License-Identifier: Apache-2.0
"""Files with damage at random places: each reader takes them or says what is
wrong, and never raises anything else. BINADE_TEST_SEED repeats a run."""

import io
import os
import random

import pytest
from binade import trace
from binade._trace_clean import Cleaner
from binade._trace_convert import SOURCES, Options
from trace_support import SMALL_TRACE, entry, rmm, snapshot

SEED = int(os.environ.get("BINADE_TEST_SEED", random.randrange(1 << 32)))
MUTANTS = 3000

LOG = rmm(*(f"{i % 3},23:59:59.99999{i},{action},0x{i // 2:x}00,{1 << i},0x{i}"
            for i in range(8)
            for action in ("allocate", "free", "allocate failure")))
ENTRIES = [entry(action, addr=i // 3, time_us=i, user_metadata="a")
           for i, action in enumerate((
               "segment_alloc", "alloc", "free_requested", "alloc",
               "free_completed", "oom", "segment_free"))]
SEGMENT = {"device": 0, "address": 8, "total_size": 1024, "stream": 0,
           "blocks": [{"size": 512, "state": "active_allocated"}]}

SEEDS = {
    "binade": [SMALL_TRACE],
    "rmm": [LOG],
    "torch": [snapshot(ENTRIES, segments=[SEGMENT], protocol=protocol)
              for protocol in (2, 4)],
}
# What is worth writing where something was.
BYTES = b"\x00\xff\n\r ,-.0129aefrsx(])}tuqrh\x80\x85\x94\x8a\x8d"


def mutant(data, chance):
    """Of up to four changes: a byte, a piece twice, a piece away, moved."""
    data = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice((1, 1, 2, 8, 60)))
        piece = bytes(data[start:end])
        match chance.randrange(6):
            case 0:
                data[start:end] = chance.randbytes(len(piece))
            case 1:
                data[start:start + 1] = bytes([chance.choice(BYTES)])
            case 2:
                data[start:start] = piece * chance.choice((1, 1, 50))
            case 3:
                del data[start:end]
            case 4:
                del data[start:end]
                place = chance.randrange(len(data) + 1)
                data[place:place] = piece
            case 5:
                if piece:
                    data[start] ^= 1 << chance.randrange(8)
    return bytes(data)


def buffered(data):
    return io.BufferedReader(io.BytesIO(data))


def read_back(data):
    for _ in trace.Reader(buffered(data)):
        pass


def convert(name, data):
    """What is written is read, without a complaint."""
    target = io.BytesIO()
    writer = trace.Writer(target)
    cleaner = Cleaner(writer)
    SOURCES[name].convert(buffered(data), cleaner, writer, Options())
    cleaner.end()
    writer.end()
    read_back(target.getvalue())


def count_refused(work, seeds):
    chance = random.Random(SEED)
    refused = 0
    for i in range(MUTANTS):
        data = mutant(chance.choice(seeds), chance)
        try:
            work(data)
        except trace.TraceError:
            refused += 1
        except BaseException:
            print(f"BINADE_TEST_SEED={SEED}, mutant {i}: {data!r}")
            raise
    return refused


@pytest.mark.parametrize("name", SOURCES)
def test_damaged_sources(name):
    for seed in SEEDS[name]:
        convert(name, seed)  # undamaged
    refused = count_refused(lambda data: convert(name, data), SEEDS[name])
    # Both happen, or the damage is none or all.
    assert MUTANTS // 10 < refused < MUTANTS


def test_damaged_traces():
    refused = count_refused(read_back, SEEDS["binade"])
    assert MUTANTS // 10 < refused < MUTANTS
