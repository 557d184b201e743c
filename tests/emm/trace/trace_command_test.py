# SPDX-License-Identifier: Apache-2.0
"""python -m moiety trace."""

import json
import os
import subprocess
import sys

from trace_support import SMALL_TRACE, entry, rmm, snapshot, written


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "moiety", "trace", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | environment)


LOG = rmm("7,10:00:00.000001,allocate,0x7f00,1024,0x0",
          "8,10:00:00.000003,free,0x7f00,1024,0x1",
          "8,10:00:00.000003,free,0x7f00,1024,0x1")


def test_convert_and_info(tmp_path):
    source, target = written(tmp_path, LOG), tmp_path / "out.mtrace.gz"
    ended = run("convert", source, target)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == ("2 operations from rmm, peak_live_bytes 1024, "
                            "dropped_frees 1\n")
    ended = run("info", target)
    assert (ended.returncode, ended.stderr) == (0, "")
    for line in ("operations: 2", "kinds alloc: 1", "threads: 2", "streams: 2",
                 "duration_ns: 2000", "peak_live_bytes: 1024",
                 "end_live_count: 0", "peak_reserved_bytes: unknown",
                 "info dropped_frees: 1"):
        assert line in ended.stdout.splitlines(), line


def test_json_has_the_same(tmp_path):
    target = tmp_path / "out.mtrace"
    data = snapshot([entry("segment_alloc", size=1 << 21),
                     entry("alloc", size=9, time_us=4),
                     entry("segment_free", size=1 << 21, time_us=5)])
    ended = run("convert", "--json", "--from=torch", "--device=0",
                written(tmp_path, data), target)
    assert json.loads(ended.stdout) == {
        "from": "torch", "operations": 3, "peak_live_bytes": 9, "counts": {}}
    about = json.loads(run("info", "--json", target).stdout)
    assert about == {
        "version": 1, "operations": 3,
        "kinds": {"alloc": 1, "grow": 1, "trim": 1}, "threads": 1,
        "streams": 1, "tags": 0, "duration_ns": 4000, "allocated_bytes": 9,
        "largest_bytes": 9, "peak_live_bytes": 9, "peak_live_count": 1,
        "end_live_bytes": 9, "end_live_count": 1,
        "peak_reserved_bytes": 1 << 21,
        "info": {"source": "torch", "device": "0",
                 "reserved_before_bytes": "0"}}


def test_what_is_wrong_with_a_file_is_one_line(tmp_path):
    target = tmp_path / "out.mtrace"
    bad = written(tmp_path, LOG.replace(b"1024", b"-5"))
    for arguments, words in (
            (("convert", bad, target), "in: line 2: the size is negative: -5"),
            (("info", bad), "in: line 1: "),
            (("info", tmp_path / "none"), "none: No such file"),
            (("info", tmp_path), "Is a directory"),
            (("convert", written(tmp_path, LOG, "good"),
              tmp_path / "no" / "out"), "No such file")):
        ended = run(*arguments)
        assert ended.returncode == 1 and ended.stdout == ""
        assert ended.stderr.startswith("moiety: ") and words in ended.stderr
        assert ended.stderr.count("\n") == 1
    assert not target.exists()


def test_names_that_a_terminal_cannot_show(tmp_path):
    path = written(tmp_path, "moiety-trace 1\nI host é\nE 0\n".encode())
    ended = run("info", path, PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert r"info host: \xe9" in ended.stdout


def test_a_trace_may_be_converted_in_its_place(tmp_path):
    path = written(tmp_path, SMALL_TRACE)
    assert run("convert", path, path).returncode == 0
    assert path.read_bytes().startswith(b"moiety-trace 1\nI source moiety\n")


def test_wrong_command_lines_and_help(tmp_path):
    for arguments in ((), ("convert",), ("convert", "a"), ("info",),
                      ("convert", "a", "b", "--from=csv"),
                      ("convert", "a", "b", "--device=-1")):
        ended = run(*arguments)
        assert ended.returncode == 2 and ended.stderr.startswith("usage: ")
    for command in ("convert", "info"):
        ended = run(command, "--help")
        assert ended.returncode == 0
        assert "examples:" in ended.stdout and "exit codes:" in ended.stdout
