# SPDX-License-Identifier: Apache-2.0
"""moiety replay on a terminal, and when it is interrupted."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import time

import pytest
from replaying import COMMAND, environment, rows_of, run, script, trace, written


@contextlib.contextmanager
def started(folder, *arguments, variables=(), **others):
    with subprocess.Popen([*COMMAND, *arguments], cwd=folder,
                          env=environment(folder, **dict(variables)),
                          **others) as process:
        try:
            yield process
        finally:
            process.kill()


def on_terminal(folder, *arguments):
    """(exit code, what standard output has, what the terminal has that is
    standard error)"""
    ours, theirs = pty.openpty()
    with started(folder, *arguments, stderr=theirs, text=True,
                 stdout=subprocess.PIPE) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal ends
            while piece := os.read(ours, 4096):
                shown += piece
        os.close(ours)
        out = process.stdout.read()
        code = process.wait()
    return code, out, shown.decode()


def test_a_terminal_sees_how_far_it_is(tmp_path):
    written(tmp_path)
    arguments = ("--subject=moiety,best-fit", "--mode=serial,concurrent",
                 tmp_path / "some.mtrace")
    code, out, shown = on_terminal(tmp_path, *arguments)
    steps = re.findall(r"\[([#.]{20})\] (\d) of 4 \d+:\d\d some\.mtrace on "
                       r"([a-z-]+)", shown)
    assert list(dict.fromkeys(steps)) == [
        ("." * 20, "1", "moiety"), ("#" * 5 + "." * 15, "2", "best-fit"),
        ("#" * 10 + "." * 10, "3", "moiety"),
        ("#" * 15 + "." * 5, "4", "best-fit")]
    assert code == 0 and shown.endswith("\r\x1b[K") and "\n" not in shown
    assert out.count("some.mtrace, ") == 2 and "\x1b" not in out


def test_what_is_wrong_has_a_line_of_its_own(tmp_path):
    written(tmp_path, trace()[:-3])
    for name in ("none", "some.mtrace"):
        code, out, shown = on_terminal(tmp_path, "--subject=moiety", name)
        assert (code, out) == (1, "")
        assert f"\r\x1b[Kmoiety: {name}" in shown and shown.count("\n") == 1


def test_nobody_else_does(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, "--subject=moiety,best-fit", "some.mtrace")
    assert (ended.returncode, ended.stderr) == (0, "")


def wait_until(is_so):
    while not is_so():
        time.sleep(0.01)


def children(process_id):
    path = f"/proc/{process_id}/task/{process_id}/children"
    with open(path, encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def interrupted(folder, *arguments, number=signal.SIGINT, **variables):
    """The rows that are kept when the signal comes after the first."""
    rows = folder / "rows"
    with started(folder, "--rows=rows", "some.mtrace", *arguments,
                 variables=variables, stdout=subprocess.PIPE,
                 stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: rows.exists() and rows.stat().st_size > 0)
        [program] = children(process.pid)
        process.send_signal(number)
        out, error = process.communicate()
        assert (process.returncode, out, error) == (128 + number, "", "")
    assert not os.path.exists(f"/proc/{program}")
    assert list((folder / "tmp").iterdir()) == []
    return rows.read_text()


def test_an_interrupt_keeps_the_rows(tmp_path):
    written(tmp_path)
    kept = interrupted(tmp_path, "--repeats=1000")
    assert kept.endswith("\n") and 1 <= len(rows_of(kept)) < 1000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_who_would_not_end(tmp_path, number):
    written(tmp_path)
    row = run(tmp_path, "--subject=moiety", "--json", "some.mtrace").stdout
    (tmp_path / "row").write_text(row)
    path = script(tmp_path, "cat row\nexec sleep 1000\n")
    assert interrupted(tmp_path, number=number, MOIETY_REPLAY=path) == row
