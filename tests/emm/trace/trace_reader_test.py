# SPDX-License-Identifier: Apache-2.0
"""The reader of traces in C says of every file what the one in Python says:
the same counts, or that the same line is wrong. MOIETY_TEST_SEED repeats a run
with random damage."""

import os
import pathlib
import random
import subprocess
import sys

from moiety import trace
from trace_support import SMALL_TRACE

PROGRAM = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"],
                       "tests/replay/read_traces")
SEED = int(os.environ.get("MOIETY_TEST_SEED", random.randrange(1 << 32)))
MUTANTS = 2000
BYTES = b"\x00\xff\n\r ,-.0129aefrsxTSGIEwuqgto\x7f\xc2\x80\xed\xa0"

HEAD = b"moiety-trace 1\nT 0 a\nS 0 null\n"


def in_c(folder, datas):
    """For each: (True, operations, peak) or (False, line, text)."""
    paths = []
    for i, data in enumerate(datas):
        paths.append(folder / str(i))
        paths[-1].write_bytes(data)
    done = subprocess.run([PROGRAM, *paths], capture_output=True, check=True)
    found = []
    for line in done.stdout.splitlines():
        verdict, first, rest = line.split(b" ", 2)
        numbers = rest.split(b" ")
        found.append((True, int(first), int(numbers[-1]))
                     if verdict == b"whole" else (False, int(first), rest))
    assert len(found) == len(datas)
    return found


def in_python(path):
    try:
        with trace.read(path) as reader:
            count = sum(1 for _ in reader)
            return True, count, reader.live.peak_bytes
    except trace.TraceError as error:
        return False, error.line, str(error)


def disagreements(folder, datas):
    """Those of which the two say something else."""
    found = []
    for i, c in enumerate(in_c(folder, datas)):
        # The C reader's own limit; and compressed files are Python's alone.
        if not c[0] and (b"makes ids small" in c[2] or b"gunzip" in c[2]):
            continue
        python = in_python(folder / str(i))
        if c[:2] != python[:2] or (c[0] and c[2] != python[2]):
            found.append((datas[i], c, python))
    return found


def lines(*body):
    return HEAD + b"".join(line + b"\n" for line in body)


ODD = [
    b"", b"\n", b"moiety-trace 1", b"moiety-trace 1\n", b"moiety-trace 2\n",
    b"moiety-trace 1\nE 0\n", b"moiety-trace 1\nE 0\n\n", b"x\n", HEAD,
    lines(b"E 0"), lines(b"E 1"), lines(b"E 00"), lines(b"E -1"),
    lines(b"E 0 "), lines(b"E 0", b"E 0"), lines(b"", b"E 0"),
    lines(b"a 0 0 0 1 0", b"E 1"), lines(b"a 0 0 0 1 0 0", b"E 1"),
    lines(b"G 0 x", b"a 0 0 0 1 0 0", b"E 1"), lines(b"a 0 0 0 1", b"E 1"),
    lines(b"a 0 0 0 1 0 ", b"E 1"), lines(b"a  0 0 0 1 0", b"E 1"),
    lines(b"a 0 1 0 1 0", b"E 1"), lines(b"a 0 0 0 1 1", b"E 1"),
    lines(b"a 0 0 0 281474976710656 0", b"E 1"),
    lines(b"a 0 0 0 281474976710657 0", b"E 1"),
    lines(b"o 0 0 18446744073709551615 0", b"E 1"),
    lines(b"o 0 0 18446744073709551616 0", b"E 1"),
    lines(b"a 9223372036854775807 0 0 1 0", b"f 1 0 0 0", b"E 2"),
    lines(b"a 9223372036854775807 0 0 1 0", b"f 0 0 0 0", b"E 2"),
    lines(b"a 00 0 0 1 0", b"E 1"), lines(b"a +0 0 0 1 0", b"E 1"),
    lines(b"f 0 0 0 0", b"E 1"), lines(b"u 0 0 0 0", b"E 1"),
    lines(b"a 0 0 0 1 0", b"a 0 0 0 1 0", b"E 2"),
    lines(b"a 0 0 0 1 0", b"q 0 0 0 0", b"u 0 0 0 0", b"E 3"),
    lines(b"a 0 0 0 1 0", b"q 0 0 0 0", b"f 0 0 0 0", b"E 3"),
    lines(b"a 0 0 0 1 0", b"w 0 0 0", b"x 0 0 0", b"E 3"),
    lines(b"a 0 0 0 1 0", b"x 0 0 0", b"r 0 0 0", b"t 0 0 1 0", b"E 4"),
    lines(b"T 2 b", b"E 0"), lines(b"T 1 b", b"E 0"), lines(b"T 1", b"E 0"),
    lines(b"T 1 ", b"E 0"), lines(b"T 1  b", b"E 0"), lines(b"T 1 b ", b"E 0"),
    lines(b"T 1 \xc3\xa4", b"E 0"), lines(b"T 1 \xc3", b"E 0"),
    lines(b"T 1 \xed\xa0\x80", b"E 0"), lines(b"T 1 \xc2\x80", b"E 0"),
    lines(b"T 1 \xc2\xa0", b"E 0"), lines(b"T 1 \xc0\xaf", b"E 0"),
    lines(b"T 1 \xf4\x90\x80\x80", b"E 0"), lines(b"T 1 \x7f", b"E 0"),
    lines(b"T 1 \xf4\x8f\xbf\xbf", b"E 0"), lines(b"T 1 a\tb", b"E 0"),
    lines(b"T 1 " + b"x" * 200, b"E 0"), lines(b"T 1 " + b"x" * 201, b"E 0"),
    lines(b"T 1 " + b"x" * 1020, b"E 0"), lines(b"T 1 " + b"x" * 1019, b"E 0"),
    lines(b"T 1 a\0b", b"E 0"), lines(b"S 1 0x0", b"E 0"),
    lines(b"S 1 0x1", b"E 0"), lines(b"S 1 0x3", b"E 0"),
    lines(b"S 1 0x03", b"E 0"), lines(b"S 1 0xA", b"E 0"),
    lines(b"S 1 0x", b"E 0"), lines(b"S 1 0xffffffffffffffff", b"E 0"),
    lines(b"S 1 0xfffffffffffffffd", b"E 0"),
    lines(b"S 1 0x1ffffffffffffffff", b"E 0"), lines(b"S 1 any", b"E 0"),
    lines(b"S 1 anything", b"E 0"), lines(b"S 1 per_thread", b"E 0"),
    lines(b"I a b", b"I a c", b"E 0"), lines(b"I A b", b"E 0"),
    lines(b"I a", b"E 0"), lines(b"I a  b", b"E 0"), lines(b"I _ b", b"E 0"),
    lines(b"I " + b"k" * 64 + b" b", b"E 0"),
    lines(b"I " + b"k" * 65 + b" b", b"E 0"), lines(b"X", b"E 0"),
    lines(*(b"I k%d b" % i for i in range(1025)), b"E 0"),
    lines(*(b"a 0 0 %d 281474976710656 0" % i for i in range(4097)), b"E 4097"),
    lines(*(b"a 0 0 %d 281474976710656 0" % i for i in range(4096)), b"E 4096"),
    b"moiety-trace 1\n" + b"".join(b"G %d x\n" % i for i in range(65537)),
    b"\xff" * 70000, b"moiety-trace 1\n" + b"a" * 1025,
    lines(b"E 0")[:-1], lines(b"a 0 0 0 1 0", b"E 1").replace(b"\n", b"\r\n"),
]


def test_odd_files(tmp_path):
    assert disagreements(tmp_path, ODD) == []


def test_ids_are_small(tmp_path):
    found = in_c(tmp_path, [lines(b"a 0 0 1048576 1 0", b"E 1"),
                            lines(b"a 0 0 1048575 1 0", b"E 1")])
    assert found[0][:2] == (False, 4) and b"trace convert" in found[0][2]
    assert found[1] == (True, 1, 1)


def test_what_is_no_plain_trace(tmp_path):
    assert b"gunzip" in in_c(tmp_path, [b"\x1f\x8b\n"])[0][2]
    done = subprocess.run([PROGRAM, tmp_path, tmp_path / "none"],
                          capture_output=True, check=True)
    assert done.stdout.splitlines() == [
        b"wrong 0 it is no regular file",
        b"wrong 0 it cannot be opened: No such file or directory"]


def mutant(chance):
    data = bytearray(SMALL_TRACE)
    for _ in range(chance.randint(1, 3)):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice((1, 1, 2, 8, 40)))
        piece = bytes(data[start:end])
        match chance.randrange(4):
            case 0:
                data[start:start + 1] = bytes([chance.choice(BYTES)])
            case 1:
                data[start:start] = piece
            case 2:
                del data[start:end]
            case 3:
                del data[start:end]
                place = chance.randrange(len(data) + 1)
                data[place:place] = piece
    return bytes(data)


def test_damaged_files(tmp_path):
    print(f"MOIETY_TEST_SEED={SEED}")
    chance = random.Random(SEED)
    datas = [mutant(chance) for _ in range(MUTANTS)]
    assert disagreements(tmp_path, datas) == []
    refused = sum(not whole for whole, *_ in in_c(tmp_path, datas))
    assert MUTANTS / 2 < refused < MUTANTS


def test_that_a_difference_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "in_python",
                        lambda path: (False, 1, ""))
    assert len(disagreements(tmp_path, [lines(b"E 0")])) == 1
