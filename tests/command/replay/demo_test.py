# SPDX-License-Identifier: Apache-2.0
"""The demo, on a trace that takes less than the one it comes with."""

import os
import subprocess
import sys

from replaying import RUNFILES, written

SAFE = ("moiety", "best-fit", "best-fit-expandable", "cuda-malloc")
ALONE = ("moiety", "best-fit", "best-fit-expandable", "pow2-buddy")
# Of a recording that is not the demo's own: title, what is replayed, on what.
PARTS = (
    ("Many threads at once", "concurrent, 16 threads", SAFE),
    ("A device that lags behind", "concurrent, 16 threads, device work:50",
     SAFE),
    ("One thread and one stream", "serial, 1 thread", ALONE),
)


def run(folder, *arguments, **others):
    """Started as Bazel does, by a user who is in `folder`."""
    return subprocess.run(
        [RUNFILES / "bench/replay/demo", *arguments], cwd=RUNFILES, text=True,
        capture_output=True, timeout=120, check=False,
        env={name: value for name, value in os.environ.items()
             if name != "PYTHONPATH"} | {
                 "MOIETY_PYTHON": sys.executable,
                 "BUILD_WORKING_DIRECTORY": str(folder)} | others)


def test_demo(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, "--trace=some.mtrace")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "The times of the driver's calls are imitated." in ended.stdout
    report = tmp_path / "moiety-demo.html"
    assert ended.stdout.endswith(f"The report is {report}\n")
    page = report.read_text()
    for number, (title, how, subjects) in enumerate(PARTS, 1):
        said = ended.stdout.partition(f"{number}. {title}\n\n")[2]
        table = said.partition("\n\n")[0].splitlines()
        assert table[0] == f"some.mtrace, {how}"
        assert [line.split()[0] for line in table[2:]] == [*subjects]
        assert f"<h2>{title}</h2>" in page
    for name in {*SAFE, *ALONE}:
        assert f"<dt>{name}</dt>" in page  # and what it is
        assert f"<th scope=col>{name}</th>" in page


def test_its_own_recordings_within_a_tight_limit(tmp_path):
    ended = run(tmp_path, "--repeats=1", MOIETY_STANDIN_COST="none")
    assert (ended.returncode, ended.stderr) == (0, "")
    said = ended.stdout.partition("3. A tight limit\n\n")[2]
    table = said.partition("\n\n")[0].splitlines()
    assert table[0] == "server.mtrace, serial, 1 thread, limit 128 MiB"
    failed = {line.split()[0]: line.split()[-1] for line in table[2:]}
    assert failed["moiety"] == failed["cuda-malloc"] == "0"
    assert "0" not in (failed["best-fit"], failed["best-fit-expandable"])
    page = (tmp_path / "moiety-demo.html").read_text()
    assert "; moiety served all." in page


def test_options_are_those_of_replay(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, "--repeats=1", "--json", "--trace=some.mtrace",
                "--subject=moiety-nocache")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count('{"kind":"replay"') == 15
    ended = run(tmp_path, "--nope")
    assert ended.returncode == 2 and "--nope" in ended.stderr


def test_no_environment(tmp_path):
    ended = run(tmp_path, MOIETY_PYTHON=str(tmp_path / "none"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "./bazelw run //bench:demo makes it" in ended.stderr
