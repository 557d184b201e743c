# SPDX-License-Identifier: Apache-2.0
"""The demo, on a trace that takes less than the one it comes with."""

import os
import subprocess
import sys

from replaying import RUNFILES, written

SUBJECTS = ("binade", "best-fit", "pow2-buddy")


def run(folder, *arguments, **others):
    """Started as Bazel does, by a user who is in `folder`."""
    return subprocess.run(
        [RUNFILES / "bench/replay/demo", *arguments], cwd=RUNFILES, text=True,
        capture_output=True, timeout=120, check=False,
        env={name: value for name, value in os.environ.items()
             if name != "PYTHONPATH"} | {
                 "BINADE_PYTHON": sys.executable,
                 "BUILD_WORKING_DIRECTORY": str(folder)} | others)


def test_demo(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, "--trace=some.btrace")
    assert (ended.returncode, ended.stderr) == (0, "")
    memory, times = ended.stdout.split("\n\n")[:2]
    assert memory.startswith("some.btrace, serial, 1 thread\n")
    assert times.startswith("some.btrace, concurrent, 8 threads\n")
    for table in (memory, times):
        assert [line.split()[0] for line in table.splitlines()[2:]] == [
            *SUBJECTS]
    report = tmp_path / "binade-demo.html"
    assert ended.stdout.endswith(f"The report is {report}\n")
    page = report.read_text()
    for name in SUBJECTS:
        assert f"<th scope=row>{name}</th>" in page


def test_options_are_those_of_replay(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, "--repeats=1", "--json", "--trace=some.btrace",
                "--subject=binade-nocache")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count('{"kind":"replay"') == 8
    ended = run(tmp_path, "--nope")
    assert ended.returncode == 2 and "--nope" in ended.stderr


def test_no_environment(tmp_path):
    ended = run(tmp_path, BINADE_PYTHON=str(tmp_path / "none"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "./bazelw run //bench:demo makes it" in ended.stderr
