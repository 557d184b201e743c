# SPDX-License-Identifier: Apache-2.0
"""moiety replay: what is wrong is told in one line, and by the exit code."""

import gzip
import os

import pytest
from moiety.__main__ import main
from replaying import PROGRAM, rows_of, run, script, trace, written

WRONG = trace().replace(b"f 10 0 3 0", b"f 10 0 9 0", 1)
LINE = 1 + WRONG.splitlines().index(b"f 10 0 9 0")


def refused(ended, words):
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("moiety: ") and words in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_broken_trace(tmp_path, pack):
    written(tmp_path, pack(WRONG), "broken")
    refused(run(tmp_path, "--subject=moiety", "broken"),
            f"broken, line {LINE}: ")
    written(tmp_path)
    ended = run(tmp_path, "--subject=moiety", "broken", "some.mtrace",
                "--mode=serial,concurrent", "--json")
    assert ended.returncode == 1
    assert ended.stderr.count(f"moiety: broken, line {LINE}: ") == 2
    assert [(row["trace"]["file"], row["mode"])
            for row in rows_of(ended.stdout)] == [
                ("some.mtrace", "serial"), ("some.mtrace", "concurrent")]


def test_a_name_that_begins_as_another_does(tmp_path):
    written(tmp_path, WRONG, "broken")
    written(tmp_path, WRONG, "broken2")
    ended = run(tmp_path, "--subject=moiety", "broken", "./broken2")
    assert [line.partition(",")[0] for line in ended.stderr.splitlines()] == [
        "moiety: broken", "moiety: ./broken2"]


def test_what_is_no_trace(tmp_path):
    written(tmp_path, gzip.compress(trace())[:-100], "cut.gz")
    for name, words in (("cut.gz", "damaged or cut off"),
                        ("none", "No such file"), ("tmp", "no regular file")):
        refused(run(tmp_path, "--subject=moiety", name), f"{name}: ")
        refused(run(tmp_path, "--subject=moiety", name), words)


@pytest.mark.parametrize("arguments, words", [
    ((), "no TRACE is named"),
    (("--subject=nope",), "no TRACE is named"),
    (("some.mtrace", "--subject=nope"), "--subject=nope is not accepted"),
    (("some.mtrace", "--subject=moiety", "--subject=moiety"),
     "--subject=moiety is not accepted: names of --list, each once"),
    (("some.mtrace", "--mode=nope"), "argument --mode: 'nope'"),
    (("some.mtrace", "--mode=serial,serial"), "each once at most"),
    (("some.mtrace", "--threads=2"), "of the concurrent mode"),
    (("some.mtrace", "--mode=concurrent", "--map"), "of the serial mode"),
    # Found before the first replay, not when its turn comes.
    (("some.mtrace", "--mode=serial,concurrent", "--threads=2,999",
      "--rows=rows"), "--threads=999 is not accepted: 1 to 256"),
    (("some.mtrace", "--mode=concurrent", "--threads="), "--threads= is not"),
    (("some.mtrace", "--limit=1GiBx"),
     "--limit=1GiBx is not accepted: 1 to 1152921504606846976, or with a unit, "
     "as 8GiB"),
    (("some.mtrace", "--lag=busy"), "--lag=busy is not accepted: idle, held"),
    (("some.mtrace", "--lag="), "--lag= is not accepted"),
    (("some.mtrace", "--lag=idle", "--lag=idle"), "--lag=idle is not accepted"),
    (("some.mtrace", "--lag=held+work:5"), "--lag=held+work:5 is not accepted"),
    (("some.mtrace", "--repeats=0"), "--repeats=0 is not accepted"),
    (("some.mtrace", "--nope"), "--nope"),
])
def test_wrong_command_lines(tmp_path, monkeypatch, capfd, arguments, words):
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOIETY_REPLAY", str(PROGRAM))
    with pytest.raises(SystemExit) as ended:
        main(["replay", *arguments])
    out, error = capfd.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert error.startswith("usage: ") and words in error
    assert not (tmp_path / "rows").exists()


def test_no_program(tmp_path):
    written(tmp_path)
    refused(run(tmp_path, "some.mtrace",
                MOIETY_REPLAY=tmp_path / "some.mtrace"), "not a program")


def test_the_program_of_the_package(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, "--subject=best-fit", "some.mtrace",
                MOIETY_REPLAY=None)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_program_that_is_killed_leaves_its_rows(tmp_path):
    written(tmp_path)
    row = run(tmp_path, "--subject=moiety", "--json", "some.mtrace").stdout
    (tmp_path / "row").write_text(row)
    path = script(tmp_path, "cat row; echo last words >&2; printf '{\"ki'\n"
                  "kill -KILL $$\n")
    ended = run(tmp_path, "--rows=rows", "--subject=moiety", "some.mtrace",
                MOIETY_REPLAY=path)
    assert ended.returncode == 1 and "\nmoiety " in ended.stdout
    assert ended.stderr == ("moiety: last words\n"
                            f"moiety: {path}: it was ended by signal 9\n")
    assert (tmp_path / "rows").read_text() == row


@pytest.mark.parametrize("text, words", [
    ("exit 7\n", "it ended with 7"),
    ("echo hello\n", "it printed what is no row: b'hello'"),
    ("exit 0\n", "nothing was replayed"),
])
def test_a_program_that_is_another(tmp_path, text, words):
    written(tmp_path)
    refused(run(tmp_path, "some.mtrace", MOIETY_REPLAY=script(tmp_path, text)),
            words)


def test_there_is_no_report_of_nothing(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, "--subject=moiety", "--driver=/no/driver",
                "--html=out.html", "some.mtrace")
    assert ended.returncode == 1
    assert "moiety did not run: " in ended.stdout
    assert ended.stderr == "moiety: nothing was replayed\n"
    assert not (tmp_path / "out.html").exists()


def test_outputs_that_cannot_be_written(tmp_path):
    written(tmp_path)
    refused(run(tmp_path, "some.mtrace", "--rows=no/rows"), "no/rows: No such")
    refused(run(tmp_path, "some.mtrace", "--rows=rows", "--html=no/out.html"),
            "no/out.html: its folder cannot be written into")
    assert not (tmp_path / "rows").exists()


def test_what_draws_is_missing(tmp_path):
    written(tmp_path)
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "plotly.py").write_text(
        "raise ImportError('planted')\n")
    refused(run(tmp_path, "some.mtrace", "--rows=rows", "--html=out.html",
                PYTHONPATH=f"{tmp_path}/without:{os.environ['PYTHONPATH']}"),
            "pip install jinja2 plotly")
    assert not (tmp_path / "rows").exists()  # before anything was replayed
