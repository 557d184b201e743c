# SPDX-License-Identifier: Apache-2.0
"""moiety.torch.load_once() without PyTorch: who loads, and which layouts are taken.
tests/torch/once_gpu.py has the rest."""

import json
import random
import signal
import subprocess
import sys
import textwrap
import types
import zlib

import moiety
import moiety.regions
import pytest
from keepers import served
from moiety._torch import layout, once
from support import MIB, run_threads

ITEMSIZES = {"float32": 4, "bool": 1}
TENSORS = [[[["weight", "parameter"], ["tied", "parameter"]], 0, "float32", 2,
            [3, 4], [1, 3]],
           [[["mask", "buffer"]], 1, "bool", 0, [], []],
           [[["none", "attribute"]], 2, "float32", 0, [0, 5], [5, 1]]]


def itemsize_of(name):
    return ITEMSIZES[name]


def made(**changes):
    storages, nbytes = layout.placed([14 * 4, 1, 0])
    text = layout.encoded("key", storages, nbytes, TENSORS)
    if not changes:
        return text
    return zlib.compress(json.dumps(
        {**json.loads(zlib.decompress(text)), **changes}).encode())


def test_a_layout_is_what_it_was():
    found = layout.decoded(made(), 2 * MIB, itemsize_of)
    assert found["key"] == "key"
    assert found["storages"] == [[0, 56], [512, 1], [1024, 0]]
    assert found["nbytes"] == 1024
    assert found["tensors"] == TENSORS
    assert layout.named(found) == {
        "weight": ("parameter", (3, 4)), "tied": ("parameter", (3, 4)),
        "mask": ("buffer", ()), "none": ("attribute", (0, 5))}


def with_tensor(index, place, value):
    tensors = json.loads(json.dumps(TENSORS))
    tensors[index][place] = value
    return {"tensors": tensors}


@pytest.mark.parametrize("changes", [
    {"nbytes": 3 * MIB}, {"nbytes": -1}, {"nbytes": True}, {"key": 5},
    {"storages": [[0, 56], [512, 1]]}, {"storages": [[0, 2048]] * 3},
    {"storages": [[3, 56], [512, 1], [1024, 0]]}, {"storages": 7},
    {"tensors": [[]]}, {"tensors": None}, with_tensor(0, 0, []),
    with_tensor(0, 0, [["weight", 3]]), with_tensor(0, 1, -1),
    with_tensor(0, 1, 3), with_tensor(0, 2, "float33"), with_tensor(0, 3, 3),
    with_tensor(0, 3, -1), with_tensor(0, 4, [4, 4]),
    with_tensor(0, 4, [3, 4, 1]), with_tensor(0, 5, [1, 4]),
    with_tensor(0, 5, [1, -3]), with_tensor(0, 5, [1, 3.0])])
def test_a_layout_of_what_is_not_there_is_refused(changes):
    with pytest.raises(ValueError, match="damaged"):
        layout.decoded(made(**changes), 2 * MIB, itemsize_of)


def test_a_layout_of_another_version_is_refused():
    with pytest.raises(ValueError, match="of version 2; accepted is 1"):
        layout.decoded(made(version=2), 2 * MIB, itemsize_of)


def test_bytes_that_are_no_layout_are_refused():
    texts = [None, b"", b"text", zlib.compress(b"text"), zlib.compress(b"[]"),
             zlib.compress(b"{}"), made()[:-9], zlib.compress(b" " * (100 << 20))]
    for text in texts:
        with pytest.raises(ValueError, match="not made by load_once"):
            layout.decoded(text, 2 * MIB, itemsize_of)


def test_random_damage_is_refused_or_harmless():
    generator = random.Random(1)
    plain = zlib.decompress(made())
    for _ in range(2000):
        text = bytearray(plain)
        text[generator.randrange(len(text))] = generator.randrange(256)
        try:
            found = layout.decoded(zlib.compress(text), 2 * MIB, itemsize_of)
        except ValueError:
            continue
        for _, storage, dtype, offset, shape, strides in found["tensors"]:
            if 0 not in shape:
                last = offset + sum((size - 1) * stride for size, stride
                                    in zip(shape, strides))
                begin, size = found["storages"][storage]
                assert (last + 1) * ITEMSIZES[dtype] <= size
                assert begin + size <= 2 * MIB


def test_too_many_names_are_refused():
    generator = random.Random(1)
    tensors = [[[[f"{generator.getrandbits(64):x}", "buffer"]], 0, "bool", 0, [], []]
               for _ in range(200_000)]
    with pytest.raises(ValueError, match="200000 tensors"):
        layout.encoded("", [[0, 1]], 512, tensors)


def test_differences_are_named():
    names = {"a": ("parameter", (1,)), "b": ("buffer", (2, 3))}
    assert layout.difference(names, dict(names)) is None
    assert layout.difference(names, {"a": names["a"]}) == "b is not in the region"
    assert layout.difference({}, {"a": names["a"]}) == "a is not in the module"
    assert layout.difference({"a": names["a"]}, {"a": names["b"]}) == (
        "a is a buffer of shape (2, 3) in the region, a parameter of shape (1,) in "
        "the module")
    many = layout.difference({str(n): names["a"] for n in range(9)}, {})
    assert many.endswith("and 6 more")


# --- who loads ---

@pytest.fixture(scope="module")
def path():
    with served() as made_path:
        yield made_path


def call_of(keeper, name, limit_s=None):
    torch = types.SimpleNamespace(
        device=lambda kind, index: types.SimpleNamespace(index=index))
    return once._Call(torch, keeper, name, None, None, "", 0, limit_s)


def test_of_many_starters_one_loads(path):
    loads = []

    def start(_):
        with moiety.regions.connect(path) as keeper:
            region, claim = call_of(keeper, "many").claim()
            if claim:
                with claim:
                    loads.append(1)
                    keeper.create("many", {0: 1}).commit(b"there")
                return
            assert region.layout == b"there"

    run_threads(8, start)
    assert len(loads) == 1
    with moiety.regions.connect(path) as keeper:
        region, claim = call_of(keeper, "many").claim()
        assert region.layout == b"there" and claim is None


CLAIM = """
    import sys, types
    import moiety.regions
    from moiety._torch import once
    torch = types.SimpleNamespace(
        device=lambda kind, index: types.SimpleNamespace(index=index))
    keeper = moiety.regions.connect(sys.argv[1])
    once._Call(torch, keeper, "killed", None, None, "", 0, None).claim()[1].name
    print("claimed", flush=True)
    sys.stdin.readline()
"""


def test_the_death_of_the_one_that_loads_makes_another_one_load(path):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CLAIM), path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"claimed\n"
    with moiety.regions.connect(path) as keeper:
        with pytest.raises(moiety.TimedOutError, match="another process loads"):
            call_of(keeper, "killed", limit_s=0).claim()
        process.send_signal(signal.SIGKILL)
        process.wait()
        region, claim = call_of(keeper, "killed").claim()
        assert region is None and claim.is_writer


def test_a_claim_that_cannot_be_made_is_an_error(path):
    with moiety.regions.connect(path) as keeper:
        for name in ("a/b", "x" * 250, "x" * 10_000):
            with pytest.raises(moiety.Error):
                call_of(keeper, name).claim()
        assert not [entry for entry in keeper.entries()
                    if entry.name.startswith(("a", "x"))]


def test_a_name_that_is_a_claim_is_refused():
    with pytest.raises(ValueError, match="load_once\\(\\)'s own"):
        once.load_once(None, None, "m#loading", None, None, "", 0, None)
