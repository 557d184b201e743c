# SPDX-License-Identifier: Apache-2.0
"""What the program in C makes of --lag and --touch."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
REPLAY = ROOT / "bench" / "replay" / "replay"
BLOCKS = 40


@pytest.fixture(name="trace")
def _trace(tmp_path):
    """Blocks of one stream, each freed at once."""
    lines = ["moiety-trace 1", "T 0 main", "S 0 0x1000"]
    for _ in range(BLOCKS):
        lines += ["a 10 0 0 4096 0", "f 10 0 0 0"]
    path = tmp_path / "some.mtrace"
    path.write_text("\n".join([*lines, f"E {2 * BLOCKS}", ""]))
    return path


def run(*arguments, **environment):
    return subprocess.run(
        [REPLAY, "--driver=standin", *arguments], capture_output=True,
        text=True, timeout=120, check=False, env=os.environ | environment)


def rows_of(ended):
    assert (ended.returncode, ended.stderr) == (0, "")
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_rows_say_the_lag(trace):
    rows = rows_of(run("--subject=moiety,best-fit", "--repeats=2",
                       "--lag=idle,held", "--lag=work:1+sync:8", trace))
    assert [(row["repeat"], row["lag"], row["subject"]) for row in rows] == [
        (repeat, lag, subject) for repeat in (0, 1)
        for lag in ("idle", "held", "work:1+sync:8")
        for subject in ("moiety", "best-fit")]
    for row in rows:
        assert row["ooms"] == 0 and row["peak_live_bytes"] == 4096
        assert row.get("releases") == (0 if row["lag"] == "held" else None)


def test_none_is_named(trace):
    row, = rows_of(run("--subject=best-fit", trace))
    assert row["lag"] == "idle" and "releases" not in row


@pytest.mark.parametrize("mode", ["serial", "concurrent"])
def test_rows_say_what_was_touched(trace, mode):
    rows = rows_of(run("--subject=moiety", "--touch=3", f"--mode={mode}", trace))
    rows += rows_of(run("--subject=moiety", "--touch=0", f"--mode={mode}", trace))
    assert [row.get("touch_pages") for row in rows] == [3, None]
    assert [row["latency_ns"]["all"]["count"] for row in rows] == [2 * BLOCKS] * 2


@pytest.mark.parametrize("pages", ["", "-1", "65537", "all"])
def test_pages_that_are_none(trace, pages):
    ended = run("--subject=moiety", f"--touch={pages}", trace)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--touch" in ended.stderr and "65536" in ended.stderr


@pytest.fixture(name="holes")
def _holes(tmp_path):
    """A block of 64 MiB goes where two of 32 MiB were, with 2 MiB beside each."""
    mib = 1 << 20
    lines = ["moiety-trace 1", "T 0 main", "S 0 0x1000"]
    for index, size in enumerate((32, 2, 32, 2)):
        lines.append(f"a 10 0 {index} {size * mib} 0")
    lines += ["f 10 0 0 0", "f 10 0 2 0", f"a 10 0 4 {64 * mib} 0"]
    path = tmp_path / "holes.mtrace"
    path.write_text("\n".join([*lines, "E 7", ""]))
    return path


def test_mapped_memory_needs_no_more_than_is_live(holes):
    rows = rows_of(run("--subject=moiety,moiety-mapped", "--bisect",
                       "--lag=idle,held", holes))
    found = {(row["subject"], row["lag"]): row for row in rows}
    for lag in ("idle", "held"):
        mapped = found["moiety-mapped", lag]
        assert mapped["peak_live_bytes"] == 68 << 20
        assert mapped["smallest_limit_bytes"] == 68 << 20
        assert mapped["ooms"] == 0
        assert (mapped["peak_reserved_bytes"]
                < found["moiety", lag]["peak_reserved_bytes"])
    assert found["moiety-mapped", "held"]["releases"] == 0


def test_concurrent(trace):
    row, = rows_of(run("--subject=moiety", "--mode=concurrent", "--lag=held",
                       trace))
    assert (row["lag"], row["releases"], row["ooms"]) == ("held", 0, 0)


@pytest.mark.parametrize("lag", ["", "busy", "held+work:5", "work:0", "idle,"])
def test_nonsense(trace, lag):
    ended = run("--subject=moiety", f"--lag={lag}", trace)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(
        f"replay: --lag={lag} is not accepted: idle, held, or one or more of ")


def test_a_refusal_says_the_lag(trace):
    ended = run("--subject=cuda-malloc", "--lag=held", trace)
    row = json.loads(ended.stdout)
    assert (ended.returncode, row["lag"]) == (1, "held")
    assert "each of its frees would wait" in row["refused"]


def test_a_child_that_dies_leaves_the_lag(trace):
    ended = run("--subject=moiety", "--lag=work:1", trace,
                MOIETY_STANDIN_FAULTS="cuLaunchHostFunc:nth=3:code=999")
    row = json.loads(ended.stdout)
    assert (ended.returncode, row["lag"]) == (1, "work:1")
    assert row["refused"] == "its process was ended by signal 6"
    assert "lag: cuLaunchHostFunc returned 999" in ended.stderr
