# SPDX-License-Identifier: Apache-2.0
"""python -m moiety trace."""

import json
import os
import signal
import subprocess
import sys

import pytest
from moiety import trace
from trace_support import SMALL_TRACE, entry, rmm, snapshot, written

COMMAND = [sys.executable, "-m", "moiety", "trace"]


def run(*arguments, **environment):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | environment)


def run_bytes(*arguments, **others):
    """With bytes as input and output."""
    return subprocess.run([*COMMAND, *map(str, arguments)],
                          stderr=subprocess.PIPE, timeout=120, check=False,
                          **others)


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


def test_in_and_out_are_not_the_same_file(tmp_path):
    path = written(tmp_path, SMALL_TRACE)
    (tmp_path / "link").hardlink_to(path)
    (tmp_path / "other").symlink_to(path)
    for source, target in (("in", "in"), ("in", "link"), ("other", "in")):
        ended = run("convert", tmp_path / source, tmp_path / target)
        assert ended.returncode == 2
        assert "IN and OUT are the same file" in ended.stderr
    with open(path, "rb") as file:
        assert run_bytes("convert", "-", path, stdin=file).returncode == 2
    assert path.read_bytes() == SMALL_TRACE


@pytest.mark.parametrize("target", ["-", "/dev/stdout"])
def test_standard_input_and_output(tmp_path, target):
    source, file = written(tmp_path, LOG), tmp_path / "file"
    assert run("convert", source, file).returncode == 0
    expected = file.read_bytes()
    ended = run_bytes("convert", "-", target, input=LOG, stdout=subprocess.PIPE)
    assert (ended.returncode, ended.stdout) == (0, expected)
    assert ended.stderr.startswith(b"2 operations from rmm")
    with open(file, "wb") as output:  # which the shell has opened
        ended = run_bytes("convert", "--json", source, target, stdout=output)
    assert ended.returncode == 0 and file.read_bytes() == expected
    assert json.loads(ended.stderr)["operations"] == 2
    ended = run_bytes("info", "-", input=expected, stdout=subprocess.PIPE)
    assert ended.returncode == 0 and b"operations: 2\n" in ended.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"in", "file"}


def test_a_pipe_that_gives_a_byte_at_a_time(tmp_path):
    read_end, write_end = os.pipe()
    with subprocess.Popen([*COMMAND, "convert", "-", "-"], stdin=read_end,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as program:
        os.close(read_end)
        for i in range(len(LOG)):
            os.write(write_end, LOG[i:i + 1])
        os.close(write_end)
        output, errors = program.communicate(timeout=120)
    assert output.endswith("E 2\n") and errors.startswith("2 operations")


def test_messages_name_the_file_that_is_wrong(tmp_path):
    source = written(tmp_path, LOG)
    for arguments, words in (
            (("convert", source, "/dev/full"), "/dev/full: No space left"),
            (("convert", source, tmp_path), f"{tmp_path}: Is a directory"),
            (("convert", source, tmp_path / "no" / "out"),
             f"{tmp_path}/no/out: No such file"),
            (("convert", tmp_path, tmp_path / "out"),
             f"{tmp_path}: Is a directory"),
            (("convert", "/proc/self/mem", tmp_path / "out"),
             "/proc/self/mem: Input/output error")):
        ended = run(*arguments)
        assert ended.returncode == 1 and ended.stdout == ""
        assert ended.stderr.startswith(f"moiety: {words}"), ended.stderr
    with open("/dev/full", "wb") as full:
        ended = run_bytes("convert", source, "-", stdout=full)
    assert ended.stderr == b"moiety: standard output: No space left on device\n"
    ended = run_bytes("info", "-", input=b"x", stdout=subprocess.PIPE)
    assert ended.stderr.startswith(b"moiety: standard input: line 1: ")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_whoever_read_the_output_has_gone(tmp_path):
    read_end, write_end = os.pipe()
    os.close(read_end)
    ended = run_bytes("convert", written(tmp_path, LOG), "-", stdout=write_end)
    os.close(write_end)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_signal_leaves_nothing_behind(tmp_path):
    """While the log is still written into a pipe."""
    os.mkfifo(tmp_path / "in")
    with subprocess.Popen(
            [*COMMAND, "convert", "--from=rmm", tmp_path / "in",
             tmp_path / "out.mtrace"],
            stderr=subprocess.PIPE, text=True) as program:
        with open(tmp_path / "in", "wb") as pipe:
            pipe.write(rmm(*["7,10:00:00.000001,allocate,0x7f,1,0x0"] * 4000))
            pipe.flush()
            while len(list(tmp_path.iterdir())) == 1:
                assert program.poll() is None
            program.send_signal(signal.SIGTERM)
            program.wait(timeout=120)
        assert program.stderr.read() == ""
    assert program.returncode == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_options_are_refused_where_they_mean_nothing(tmp_path):
    target = tmp_path / "out.mtrace"
    log, pickled = written(tmp_path, LOG), written(
        tmp_path, snapshot([entry("alloc")]), "pickle")
    for arguments, words in (
            (("--device=7", log), "--device means nothing for rmm"),
            (("--device=0", "--from=rmm", log), "--device means nothing"),
            (("--nth=1", pickled), "--nth means nothing for torch"),
            (("--nth=1", written(tmp_path, SMALL_TRACE, "trace")),
             "--nth means nothing for moiety")):
        ended = run("convert", *arguments, target)
        assert ended.returncode == 2 and words in ended.stderr
        assert not target.exists()
    assert run("convert", "--nth=1", log, target).returncode == 0


def test_convert_of_the_second_log_and_a_zip_from_a_pipe(tmp_path):
    target = tmp_path / "out.mtrace"
    both = written(tmp_path, LOG + LOG)
    assert "line 5: a second log begins here" in run(
        "convert", both, target).stderr
    assert run("convert", "--nth=2", both, target).returncode == 0
    with trace.read(target) as reader:
        assert len(list(reader)) == 2
    ended = run_bytes("convert", "-", target, input=b"PK\3\4",
                      stdout=subprocess.PIPE)
    assert b"standard input: a zip archive cannot be read from a pipe" in (
        ended.stderr)


def test_wrong_command_lines_and_help(tmp_path):
    for arguments in ((), ("convert",), ("convert", "a"), ("info",),
                      ("convert", "a", "b", "--from=csv"),
                      ("convert", "a", "b", "--device=-1"),
                      ("convert", "a", "b", "--nth=0")):
        ended = run(*arguments)
        assert ended.returncode == 2 and ended.stderr.startswith("usage: ")
    for command in ("convert", "info"):
        ended = run(command, "--help")
        assert ended.returncode == 0
        assert "examples:" in ended.stdout and "exit codes:" in ended.stdout
