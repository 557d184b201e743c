# SPDX-License-Identifier: Apache-2.0
"""Where the programs in C are found, and moiety bench, which starts one."""

import os

import pytest

from moiety._cli import command
from starting import run

# It tells what it got, and ends as it is told.
PROGRAM = """#!/bin/sh
printf '<%s>' "$@"
exit "${EXIT_CODE:-0}"
"""


def plant(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PROGRAM)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The three places, all empty."""
    monkeypatch.delenv("MOIETY_BENCH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(command, "BESIDE", tmp_path / "beside")
    return tmp_path


def test_it_says_how_to_make_what_is_nowhere(places):
    with pytest.raises(command.ProgramError) as caught:
        command.find_program("bench")
    for words in ("./bazelw build //bench:bench", "MOIETY_BENCH"):
        assert words in str(caught.value)


def test_the_first_of_three_places_wins(places, monkeypatch):
    on_path = plant(places / "path" / "moiety-bench")
    assert command.find_program("bench") == on_path
    beside = plant(places / "beside" / "bench")
    assert command.find_program("bench") == beside
    named = plant(places / "named")
    monkeypatch.setenv("MOIETY_BENCH", named)
    assert command.find_program("bench") == named


def test_what_is_named_is_not_passed_over(places, monkeypatch):
    plant(places / "beside" / "bench")
    for name in (places / "gone", places, places / "text"):
        (places / "text").write_text("not a program")
        monkeypatch.setenv("MOIETY_BENCH", str(name))
        with pytest.raises(command.ProgramError, match="MOIETY_BENCH="):
            command.find_program("bench")


@pytest.mark.parametrize("words", [
    ("--list",), ("--json", "a b", "--help-me"), ("-x", "info"), ("",)])
def test_all_words_are_thecommand(tmp_path, words):
    ended = run("bench", *words, MOIETY_BENCH=plant(tmp_path / "bench"))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "".join(f"<{word}>" for word in words)


def test_the_exit_code_is_thecommand(tmp_path):
    ended = run("bench", MOIETY_BENCH=plant(tmp_path / "bench"), EXIT_CODE=3)
    assert ended.returncode == 3


def test_help_is_ours_and_then_thecommand(tmp_path):
    program = plant(tmp_path / "bench")
    ended = run("bench", "--list", "--help", MOIETY_BENCH=program)
    assert ended.returncode == 0
    assert ended.stdout.startswith("usage: moiety bench [ARG ...]\n")
    assert ended.stdout.endswith("\noptions of the program:\n\n<--help>")


def test_without_a_program_help_is_ours_and_all_else_fails():
    ended = run("bench", "--help", MOIETY_BENCH="/nowhere")
    assert ended.returncode == 0 and "usage: moiety bench" in ended.stdout
    assert "is not here: MOIETY_BENCH=/nowhere" in ended.stdout
    ended = run("bench", "--list", MOIETY_BENCH="/nowhere")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "moiety: MOIETY_BENCH=/nowhere: not a program\n"


def test_what_cannot_be_started_is_one_line(tmp_path):
    (tmp_path / "bench").write_text("")
    (tmp_path / "bench").chmod(0o755)
    ended = run("bench", MOIETY_BENCH=tmp_path / "bench")
    assert ended.returncode == 1
    assert ended.stderr == f"moiety: {tmp_path}/bench: Exec format error\n"


def test_the_real_program_is_started():
    program = os.path.join(os.environ["TEST_SRCDIR"],
                           os.environ["TEST_WORKSPACE"], "bench", "harness",
                           "bench")
    ended = run("bench", "--list", MOIETY_BENCH=program)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("workloads:\n  pair ")
    ended = run("bench", "--threads=0", MOIETY_BENCH=program)
    assert ended.returncode == 2 and "--threads=0" in ended.stderr
