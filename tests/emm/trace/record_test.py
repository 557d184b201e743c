# SPDX-License-Identifier: Apache-2.0
"""A program that knows nothing of it is recorded, and what comes of it is a
trace for the strict reader."""

import json
import os
import subprocess
import sys
import textwrap

from moiety import trace

PROGRAM = textwrap.dedent("""
    import threading
    import moiety

    pool = moiety.Pool()

    def work():
        kept = []
        for i in range(500):
            kept.append(pool.alloc(700 * (1 + i % 7)))
            if len(kept) > 5:
                del kept[0]

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    """)


def recorded(path, program=PROGRAM):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True,
        env=os.environ | {"MOIETY_CONF": f"trace:{path},history:64"})


def test_what_a_program_does_is_a_trace(tmp_path):
    path = tmp_path / "program.mtrace"
    run = recorded(path)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    with trace.read(path) as reader:
        operations = list(reader)
    kinds = [one.kind for one in operations]
    assert kinds.count("alloc") == 2000
    assert kinds.count("free") + kinds.count("free_sized") == 2000
    assert len({one.thread for one in operations
                if one.kind == "alloc"}) == 4
    assert reader.info["source"] == "moiety"
    assert not {"lost", "late_times", "implied_frees",
                "dropped_frees"} & set(reader.info)


def test_the_command_tells_of_it_and_converts_it(tmp_path):
    path = tmp_path / "program.mtrace"
    assert recorded(path).returncode == 0
    command = [sys.executable, "-m", "moiety", "trace"]
    info = subprocess.run([*command, "info", path, "--json"], check=True,
                          capture_output=True, text=True)
    assert json.loads(info.stdout)["peak_live_bytes"] >= 5 * 700
    small = tmp_path / "small.mtrace.gz"
    subprocess.run([*command, "convert", path, small], check=True,
                   capture_output=True)
    with trace.read(path) as before, trace.read(small) as after:
        # What is recorded has nothing to be mended.
        assert ([one.kind for one in before] == [one.kind for one in after])


def test_a_file_that_cannot_be_is_said(tmp_path):
    run = recorded(tmp_path / "no" / "folder.mtrace")
    assert run.returncode == 1
    assert "cannot record to" in run.stderr
    assert "No such file or directory" in run.stderr
