# SPDX-License-Identifier: Apache-2.0
"""moiety replay: its tables, rows and reports agree."""

import gzip
import json
import subprocess

from moiety._report import words
from replaying import (
    COMMAND, environment, rows_of, run, script, trace, written)

SUBJECTS = ["moiety", "best-fit", "pow2-buddy"]
NAMED = "--subject=" + ",".join(SUBJECTS)


def cells(stdout, title):
    """{subject: {heading: cell}} of the table below this title."""
    lines = stdout.splitlines()
    at = lines.index(title) + 1
    end = lines.index("", at)
    table = [[cell for cell in line.split("  ") if cell]
             for line in lines[at:end]]
    headings = [heading.strip() for heading in table[0]]
    return {line[0]: dict(zip(headings, map(str.strip, line)))
            for line in table[1:]}


def test_the_table_says_what_the_rows_say(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, NAMED, "--bisect", "--rows=rows", "some.mtrace")
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = rows_of((tmp_path / "rows").read_text())
    table = cells(ended.stdout, "some.mtrace, serial, 1 thread")
    assert [row["subject"] for row in rows] == list(table) == SUBJECTS
    for row in rows:
        ratio = row["peak_reserved_bytes"] / row["peak_live_bytes"]
        assert row["smallest_limit_bytes"] >= row["peak_live_bytes"] > 8000
        wanted = {
            "subject": row["subject"],
            "peak reserved ÷ peak live": f"{ratio:.3f}",
            "smallest limit": words.as_bytes(row["smallest_limit_bytes"]),
            "driver calls": str(row["driver_calls"]),
            "median": words.as_time(row["latency_ns"]["all"]["median"]),
            "p99": words.as_time(row["latency_ns"]["all"]["p99"]),
            "out of memory": "0"}
        assert table[row["subject"]] == {
            name: value.replace(words.JOIN, " ")
            for name, value in wanted.items()}
    assert ended.stdout.endswith("the times are not a GPU's.\n")


def large_trace(block_bytes):
    """Four blocks that are live at one time, as on a large GPU."""
    blocks = "".join(f"a 1 0 {i} {block_bytes} 0\n" for i in range(4))
    return (f"moiety-trace 1\nT 0 main\nS 0 legacy\n{blocks}E 4\n").encode()


def test_the_standin_has_room_for_the_trace(tmp_path):
    """Unless the user says how much it has."""
    for name, block_bytes in (("large", 5 << 30), ("larger", 40 << 30),
                              ("small", 1000)):
        written(tmp_path, large_trace(block_bytes), name)
    for size, ooms in ((None, [0, 0, 0]), ("8GiB", [3, 4, 0])):
        ended = run(tmp_path, "--subject=best-fit", "--json", "large",
                    "larger", "small", MOIETY_STANDIN_MEMORY=size)
        assert [row["ooms"] for row in rows_of(ended.stdout)] == ooms


def test_a_trace_from_standard_input(tmp_path):
    ended = subprocess.run(
        [*COMMAND, "--subject=best-fit", "-"], cwd=tmp_path, timeout=120,
        input=gzip.compress(trace()), capture_output=True, check=False,
        env=environment(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.startswith(b"stdin.mtrace, serial, 1 thread\n")


def test_repeats_are_one_line_with_their_median(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, "--subject=moiety", "--repeats=3", "--json",
                "some.mtrace")
    rows = rows_of(ended.stdout)
    assert [row["repeat"] for row in rows] == [0, 1, 2]
    for row, median_ns, ooms in zip(rows, (7000, 5, 20), (0, 4, 1)):
        row["latency_ns"]["all"]["median"] = median_ns
        row["ooms"] = ooms
    (tmp_path / "rows").write_text("".join(json.dumps(row) + "\n"
                                           for row in rows))
    ended = run(tmp_path, "some.mtrace",
                MOIETY_REPLAY=script(tmp_path, "cat rows\n"))
    table = cells(ended.stdout, "some.mtrace, serial, 1 thread")
    assert table.keys() == {"moiety"}
    assert table["moiety"]["median"] == "20 ns"
    assert table["moiety"]["out of memory"] == "1"


def test_json_is_the_rows_and_nothing_else(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, NAMED, "--json", "--rows=rows", "some.mtrace")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == (tmp_path / "rows").read_text()
    rows = rows_of(ended.stdout)
    assert [row["subject"] for row in rows] == SUBJECTS
    assert all(row["kind"] == "replay" and row["is_standin"] == (
        row["driver"] is not None) for row in rows)


def test_each_mode_gets_its_options(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, "--subject=moiety", "--subject=best-fit", "--json",
                "--mode=concurrent,serial", "--threads=1,4", "--samples=9",
                "--map", "--limit=8000000", "--commit=abc", "some.mtrace")
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = rows_of(ended.stdout)
    assert [(row["subject"], row["mode"], row["threads"]) for row in rows] == [
        (subject, *way)
        for way in (("concurrent", 1), ("concurrent", 4), ("serial", 1))
        for subject in ("moiety", "best-fit")]
    for row in rows:
        is_serial = row["mode"] == "serial"
        assert (row["limit_bytes"], row["commit"]) == (8000000, "abc")
        assert ("map" in row, "timeline" in row) == (is_serial, is_serial)
        assert not is_serial or len(row["timeline"]["op"]) <= 9


def test_each_lag_is_a_replay_of_its_own(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, NAMED, "--lag=idle,held", "--lag=work:1",
                "--rows=rows", "--mode=serial,concurrent", "some.mtrace")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [(row["mode"], row["lag"], row["subject"]) for row in
            rows_of((tmp_path / "rows").read_text())] == [
        (mode, lag, subject) for mode in ("serial", "concurrent")
        for lag in ("idle", "held", "work:1") for subject in SUBJECTS]
    idle = cells(ended.stdout, "some.mtrace, serial, 1 thread")
    held = cells(ended.stdout, "some.mtrace, serial, 1 thread, device held")
    assert list(idle) == list(held) == SUBJECTS
    assert held["moiety"]["streams let go"] == "0"
    assert "streams let go" not in idle["moiety"]
    assert "some.mtrace, concurrent, 1 thread, device work:1\n" in ended.stdout


def test_the_report_holds_the_rows(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, NAMED, "--html=out.html", "--rows=rows",
                "--mode=serial,concurrent", "--threads=2", "some.mtrace")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith("The report is out.html\n")
    page = (tmp_path / "out.html").read_text()
    rows = rows_of((tmp_path / "rows").read_text())
    assert len(rows) == 6 and page.startswith("<!DOCTYPE html>")
    for row in rows:
        if row["mode"] == "serial":
            assert row["timeline"]["op"] and row["map"]["segments"]
            assert f">{row['peak_reserved_bytes']:,}<" in page
        assert f">{row['latency_ns']['all']['max']:,}<" in page


def test_traces_may_be_compressed_and_have_one_name(tmp_path):
    (tmp_path / "sub").mkdir()
    small = trace(20)
    written(tmp_path, gzip.compress(trace(40)), "some.mtrace.gz")
    written(tmp_path / "sub", gzip.compress(small), "some.mtrace.gz")
    written(tmp_path, small, "plain.gz")  # its bytes tell, not its name
    ended = run(tmp_path, "--subject=best-fit", "--json", "some.mtrace.gz",
                "sub/some.mtrace.gz", "plain.gz", "plain.gz")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [(row["trace"]["file"], row["trace"]["operations"])
            for row in rows_of(ended.stdout)] == [
                ("some.mtrace", 80), ("some.mtrace", 40), ("plain.gz", 40),
                ("plain.gz", 40)]


def test_who_is_not_named_may_be_missing(tmp_path):
    written(tmp_path)
    ended = run(tmp_path, "some.mtrace", MOIETY_TORCH_SHIM=None)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "torch did not run: MOIETY_TORCH_SHIM names no library" \
        in ended.stdout
    listed = run(tmp_path, "--list")
    assert listed.returncode == 0
    subjects = listed.stdout.splitlines()
    assert subjects
    for line in subjects:
        assert f"\n{line.split()[0]} " in ended.stdout
    ended = run(tmp_path, "--subject=torch,moiety", "some.mtrace",
                MOIETY_TORCH_SHIM=None)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "torch did not run: " in ended.stdout
    assert "moiety" in cells(ended.stdout, "some.mtrace, serial, 1 thread")


def test_help(tmp_path):
    ended = run(tmp_path, "--help")
    assert ended.returncode == 0
    assert "examples:" in ended.stdout and "exit codes:" in ended.stdout
