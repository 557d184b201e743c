# SPDX-License-Identifier: Apache-2.0
"""Files with damage at random places: each reader keeps to its rule
(trace_rule.py). MOIETY_TEST_SEED repeats a run."""

import os
import random

import pytest
from trace_rule import READERS, check
from trace_snapshot_mutator import mutate
from trace_support import SEEDS

SEED = int(os.environ.get("MOIETY_TEST_SEED", random.randrange(1 << 32)))
MUTANTS = 3000

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


def count_refused(read, mutants):
    refused = 0
    for i, data in enumerate(mutants):
        try:
            refused += not check(read, data)
        except BaseException:
            print(f"MOIETY_TEST_SEED={SEED}, mutant {i}: {data!r}")
            raise
    # Both happen, or the damage is none or all.
    assert MUTANTS // 10 < refused < MUTANTS


@pytest.mark.parametrize("name, index", [
    (name, index) for name, reads in READERS.items()
    for index in range(len(reads))])
def test_damaged_files(name, index):
    read, seeds = READERS[name][index], SEEDS[name]
    assert all(check(read, seed) for seed in seeds)  # undamaged
    chance = random.Random(SEED)
    count_refused(read, (mutant(chance.choice(seeds), chance)
                         for _ in range(MUTANTS)))


def test_damaged_snapshots_of_whole_pickles():
    chance = random.Random(SEED)
    made = (mutate(chance.choice(SEEDS["torch"]), 1 << 16,
                   chance.getrandbits(32)) for _ in range(MUTANTS))
    count_refused(READERS["torch"][0], (data for data in made if data))
