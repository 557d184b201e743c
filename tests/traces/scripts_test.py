# SPDX-License-Identifier: Apache-2.0
"""The scripts that make the recordings, as far as they go without a GPU."""

import collections
import json
import os
import pathlib
import subprocess
import sys

import numpy
import pytest

RECORD = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"],
                      "bench", "traces", "record")
sys.path.insert(0, str(RECORD))

import frame  # noqa: E402
import frame_work  # noqa: E402
import serving  # noqa: E402
import train  # noqa: E402

REQUESTS = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,2
2023-11-16 18:15:50.9951690,10,1
"""


def script(name, *arguments, **environment):
    """Without PyTorch and CuPy, wherever the test runs."""
    hidden = ("import sys; sys.modules.update(torch=None, cupy=None); "
              f"sys.argv[0] = {name!r}; sys.path.insert(0, {str(RECORD)!r}); "
              f"import runpy; runpy.run_path({str(RECORD / name)!r}, "
              "run_name='__main__')")
    return subprocess.run(
        [sys.executable, "-B", "-c", hidden, *arguments],
        env=os.environ | environment, capture_output=True, text=True,
        timeout=60, check=False)


@pytest.mark.parametrize("name, arguments, environment, words", [
    ("train.py", ["out"], {}, "train: PyTorch is not installed"),
    ("serving.py", ["out", "requests.csv", "--requests=2"], {},
     "serving: PyTorch is not installed"),
    ("frame.py", [], {"MOIETY_CONF": "trace:out.mtrace"},
     "frame: CuPy is not installed"),
])
def test_what_is_missing_is_named(tmp_path, monkeypatch, name, arguments,
                                  environment, words):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("requests.csv").write_text(REQUESTS)
    done = script(name, *arguments, **environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(words)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name, arguments, words", [
    ("train.py", ["out", "--width=100"], "--width is no multiple of 64"),
    ("train.py", ["out", "--steps=0"], "--steps is less than 1"),
    ("serving.py", ["out", "in", "--speed=0"], "--speed is not between"),
    ("serving.py", ["out", "in", "--speed=nan"], "--speed is not between"),
    ("frame.py", [], "MOIETY_CONF has no trace:FILE"),
    ("frame.py", ["--dry-run", "--rows=1"], "--rows is less than 2"),
])
def test_bad_arguments_are_named(name, arguments, words):
    done = script(name, *arguments)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize("text, words", [
    ("a,b\n1,2\n", "line 2: KeyError"),
    (REQUESTS.replace("374", "many"), "line 2: ValueError"),
    (REQUESTS.replace(",1\n", "\n"), "line 3: TypeError"),
    (REQUESTS.replace(",1\n", ",0\n"), "line 3: ValueError"),
    (REQUESTS, "has 2 requests, not 3"),
])
def test_bad_requests_are_named(tmp_path, text, words):
    path = tmp_path / "requests.csv"
    path.write_text(text)
    with pytest.raises(serving.BadRequests) as caught:
        serving.read_requests(path, 3)
    assert words in str(caught.value)


class Memory:
    """Counts what serve() allocates and drops."""

    live_bytes = peak_bytes = count = 0

    def __init__(self, size_bytes):
        self.size_bytes = size_bytes
        Memory.count += 1
        Memory.live_bytes += size_bytes
        Memory.peak_bytes = max(Memory.peak_bytes, Memory.live_bytes)

    def __del__(self):
        Memory.live_bytes -= self.size_bytes


def test_serving_frees_all_that_it_allocates(tmp_path):
    path = tmp_path / "requests.csv"
    path.write_text(REQUESTS)
    requests = serving.read_requests(path, 2)
    assert [round(arrival, 6) for arrival, *_ in requests] == [0, 4.314579]
    serving.serve(Memory, requests, 4.0)
    # For each request a cache, logits and the layers of the prefill; and those
    # of a decoding step, for the first step alone.
    assert Memory.count == 2 * (2 + 1 + 8 * 7) + (1 + 2 * 7)
    assert Memory.live_bytes == 0
    assert Memory.peak_bytes > 376 * serving.CACHE_BYTES_PER_TOKEN


def test_steps_of_a_checkpointed_training_have_different_lengths():
    same = train.lengths_of(train.parse(["out"]))
    other = train.lengths_of(train.parse(["out", "--checkpoint", "--steps=9"]))
    assert same == [1024] * 4
    assert len(set(other)) == 9
    assert all(128 <= length <= 1024 for length in other)


def text_of(strings, row):
    begin, end = strings.offsets[row], strings.offsets[row + 1]
    return bytes(strings.data[begin:end])


def fnv(text):
    value = 2166136261
    for byte in text:
        value = (value ^ byte) * 16777619 % 2 ** 32
    return value


def batch_in_plain_python(orders):
    """What run_batch() computes, as one would without arrays."""
    by_shard, by_region = (collections.defaultdict(list) for _ in range(2))
    for row, customer in enumerate(orders.customer):
        worth = int(orders.price[row]) * int(orders.quantity[row])
        name = text_of(orders.name, row)
        if worth <= 500 or len(name) < 4 or customer % 2:
            continue
        region = int(customer) // 2 % 17
        by_shard[fnv(name) % 1000 * 17 + region].append(worth)
        by_region[region].append(worth)
    top = sorted(map(sum, by_shard.values()))[-frame_work.TOP:]
    return (sum(top) + sum(by_shard)
            + sum(len(group) + sum(group) for group in by_region.values()))


def test_the_frame_computes_what_plain_python_does():
    machine = frame.OnCpu()
    orders = frame_work.make_orders(machine, numpy.random.default_rng(7), 3000)
    found = frame_work.run_batch(
        machine, orders, frame_work.make_customers(machine))
    assert found == batch_in_plain_python(orders) > 0


def test_a_dry_run_prints_its_sum():
    done = script("frame.py", "--dry-run", "--batches=2", "--rows=500")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert (printed["batches"], printed["rows"]) == (2, 500)
    assert printed["sum"] == frame_work.run_batches(frame.OnCpu(), 2, 500)
