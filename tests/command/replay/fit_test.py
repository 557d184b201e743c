# SPDX-License-Identifier: Apache-2.0
"""moiety fit: the limits that it finds, and the moments that need most."""

import json
import subprocess
import sys

import pytest

from moiety._trace.moments import highest
from replaying import environment, run as run_replay, trace, written

COMMAND = [sys.executable, "-B", "-m", "moiety", "fit"]
MIB = 1 << 20


def run(folder, *arguments, **others):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=folder, capture_output=True,
        text=True, timeout=300, check=False, stdin=subprocess.DEVNULL,
        env=environment(folder, MOIETY_DRIVER="standin", **others))


def tagged():
    """24 MiB at operation 3, 8 at 5, 12 at 8, of two tags and of none."""
    lines = ["moiety-trace 1", "T 0 main", "S 0 legacy", "G 0 weights",
             "G 1 cache", f"a 1000 0 1 {8 * MIB} 0 0", f"a 1000 0 2 {8 * MIB} 0 1",
             f"a 1000 0 3 {8 * MIB} 0 1", "f 1000 0 2 0", "f 1000 0 3 0",
             f"a 1000 0 4 {2 * MIB} 0", f"a 1000 0 5 {MIB} 0", f"a 1000 0 6 {MIB} 0",
             "f 1000 0 1 0", "f 1000 0 4 0", "f 1000 0 5 0", "f 1000 0 6 0", "E 12"]
    return "\n".join([*lines, ""]).encode()


def test_moments_and_whose_memory_it_is(tmp_path):
    first, second = highest(written(tmp_path, tagged()))
    assert (first.operation, first.since_ns, first.live_bytes, first.count) == (
        3, 2000, 24 * MIB, 3)
    assert [(one.tag, one.live_bytes, one.count) for one in first.owners] == [
        ("cache", 16 * MIB, 2), ("weights", 8 * MIB, 1)]
    assert (second.operation, second.live_bytes) == (8, 12 * MIB)
    assert [(one.tag, one.size_bytes, one.count) for one in second.owners] == [
        ("weights", None, 1), (None, MIB, 2), (None, 2 * MIB, 1)]


def test_a_limit_that_it_finds_is_one(tmp_path):
    path = written(tmp_path, tagged())
    ended = run(tmp_path, "--json", path)
    assert (ended.returncode, ended.stderr) == (0, "")
    [result] = json.loads(ended.stdout)
    assert result["moments"][0]["live_bytes"] == 24 * MIB
    assert set(result["memory"]) == {"mapped", "fixed"}
    for kind, subject in (("mapped", "moiety-mapped"), ("fixed", "moiety")):
        found = result["memory"][kind]
        assert 24 * MIB <= found["limit_bytes"] <= 32 * MIB
        assert found["tried_to_bytes"] == found["limit_bytes"] + (
            found["tried_count"] - 1) * found["step_bytes"]
        replayed = run_replay(tmp_path, f"--subject={subject}", "--json",
                              f"--limit={found['limit_bytes']}", path)
        assert json.loads(replayed.stdout)["ooms"] == 0


def test_the_text_says_the_same(tmp_path):
    ended = run(tmp_path, "--memory=mapped", written(tmp_path, tagged()))
    assert ended.returncode == 0
    assert ("24 MiB in 3 blocks are live 2 us after the start, at operation 3:\n"
            "  16 MiB in 2 blocks: cache\n  8 MiB in 1 block: weights\n"
            ) in ended.stdout.replace("µs", "us")
    assert "\nmapped memory: " in ended.stdout
    assert "fixed" not in ended.stdout


@pytest.mark.parametrize("arguments, status, said", [
    (["--memory=paged", "some.mtrace"], 2, "accepted are mapped and fixed"),
    (["--memory=fixed,fixed", "some.mtrace"], 2, "each once at most"),
    ([], 2, "TRACE"),
    (["none.mtrace"], 1, "none.mtrace"),
    (["cut.mtrace"], 1, "cut off"),
    (["--lag=soon", "some.mtrace"], 1, "--lag=soon"),
    (["--driver=/no/such.so", "some.mtrace"], 1, "/no/such.so"),
])
def test_bad_input(tmp_path, arguments, status, said):
    written(tmp_path)
    written(tmp_path, trace()[:-20], "cut.mtrace")
    ended = run(tmp_path, *arguments)
    assert ended.returncode == status
    assert said in ended.stderr + ended.stdout


def test_without_the_program(tmp_path):
    ended = run(tmp_path, written(tmp_path), MOIETY_REPLAY="/no/such")
    assert ended.returncode == 1
    assert "MOIETY_REPLAY=/no/such: not a program" in ended.stderr
