# SPDX-License-Identifier: Apache-2.0
"""What the recordings of real programs take: the model of PyTorch's allocator
takes what PyTorch's own took, and the pool hardly more than the model; the same
with mapped memory, beside PyTorch's with expandable segments."""

import functools
import gzip
import json
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
TRACES = ROOT / "bench" / "traces"
REPLAY = ROOT / "bench" / "replay" / "replay"
ENTRIES = json.loads((TRACES / "index.json").read_text())["traces"]

# How far from PyTorch's own figure the model may be, either way.
MODEL_PART_MAX = 0.005
# How much the pool may reserve at its peak, by what the model does.
POOL_BY_MODEL_MAX = 1.02
# 39 MiB in the caches of 16 threads: a segment more or less.
SERVER_BY_MODEL_MAX = 1.10

# Most reserved by most live, as another simulation of expandable segments has it
# that shares nothing with the model.
EXPANDABLE_BY_LIVE = {
    "frame.mtrace.gz": 2.98,
    "gpt.mtrace.gz": 1.061,
    "gpt-checkpointed.mtrace.gz": 1.169,
    "server.mtrace.gz": 10.1,
    "serving.mtrace.gz": 1.037,
    "train-checkpointed.mtrace.gz": 1.152,
    "train.mtrace.gz": 1.048,
}
MAPPED_BY_EXPANDABLE_MAX = 1.0
SUBJECTS = ("best-fit", "moiety", "best-fit-expandable", "moiety-mapped")


@functools.lru_cache(maxsize=None)
def peaks(name):
    """Most reserved bytes, by subject, and most live ones."""
    plain = pathlib.Path(os.environ["TEST_TMPDIR"], name.removesuffix(".gz"))
    with gzip.open(TRACES / name) as source, open(plain, "wb") as target:
        shutil.copyfileobj(source, target)
    done = subprocess.run(
        [REPLAY, "--driver=standin", f"--subject={','.join(SUBJECTS)}", plain],
        env=os.environ | {"MOIETY_STANDIN_MEMORY": "130GiB"},
        capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows = [row for row in map(json.loads, done.stdout.splitlines())
            if row["kind"] == "replay"]
    assert [row["ooms"] for row in rows] == [0] * len(SUBJECTS)
    found = {row["subject"]: row["peak_reserved_bytes"] for row in rows}
    return found | {"live": rows[0]["peak_live_bytes"]}


def unlike_pytorch(found, entry):
    """What is wrong with the model's peak, or None."""
    recorded = entry["recorded_with"]["peak_reserved_bytes"]
    if abs(found["best-fit"] - recorded) > MODEL_PART_MAX * recorded:
        return f"best-fit {found['best-fit']}, PyTorch {recorded}"
    return None


def above_model(found, bound):
    """What is wrong with the pool's peak, or None."""
    if found["moiety"] > bound * found["best-fit"]:
        return f"moiety {found['moiety']}, best-fit {found['best-fit']}"
    return None


def unlike_simulation(found, by_live):
    """What is wrong with the peak of expandable segments, or None: it differs
    from the figure by more than its last digit."""
    part = found["best-fit-expandable"] / found["live"]
    return None if f"{part:.{digits_of(by_live)}f}" == str(by_live) else part


def digits_of(number):
    return len(str(number).partition(".")[2])


def above_expandable(found):
    """What is wrong with the peak on mapped memory, or None."""
    part = found["moiety-mapped"] / found["best-fit-expandable"]
    return part if part > MAPPED_BY_EXPANDABLE_MAX else None


def names_of(entries):
    return [entry["file"] for entry in entries]


OF_PYTORCH = [entry for entry in ENTRIES if entry["recorded_with"][
    "allocator"].startswith("PyTorch's caching allocator")]


def test_each_trace_has_a_bound():
    assert sorted(EXPANDABLE_BY_LIVE) == sorted(names_of(ENTRIES))
    assert len(OF_PYTORCH) >= 3


@pytest.mark.parametrize("entry", OF_PYTORCH, ids=names_of(OF_PYTORCH))
def test_best_fit_takes_what_pytorch_took(entry):
    assert unlike_pytorch(peaks(entry["file"]), entry) is None


@pytest.mark.parametrize("name", names_of(ENTRIES))
def test_moiety_is_not_above_best_fit_by_more_than_its_bound(name):
    most = SERVER_BY_MODEL_MAX if "server" in name else POOL_BY_MODEL_MAX
    assert above_model(peaks(name), most) is None


@pytest.mark.parametrize("name", EXPANDABLE_BY_LIVE)
def test_expandable_segments_take_what_a_simulation_took(name):
    assert unlike_simulation(peaks(name), EXPANDABLE_BY_LIVE[name]) is None


@pytest.mark.parametrize("name", EXPANDABLE_BY_LIVE)
def test_mapped_memory_is_not_above_expandable(name):
    assert above_expandable(peaks(name)) is None


def test_peaks_that_are_wrong_are_found():
    for bytes_, is_right in ((1048, True), (1047, False), (1049, False)):
        found = {"best-fit-expandable": bytes_, "live": 1000}
        assert (unlike_simulation(found, 1.048) is None) == is_right
    for bytes_, is_right in ((1000, True), (1001, False)):
        found = {"moiety-mapped": bytes_, "best-fit-expandable": 1000}
        assert (above_expandable(found) is None) == is_right

    entry = {"recorded_with": {"peak_reserved_bytes": 1000}}
    assert unlike_pytorch({"best-fit": 1005}, entry) is None
    assert unlike_pytorch({"best-fit": 1006}, entry)
    assert unlike_pytorch({"best-fit": 994}, entry)
    assert above_model({"moiety": 1020, "best-fit": 1000}, 1.02) is None
    assert above_model({"moiety": 1021, "best-fit": 1000}, 1.02)
