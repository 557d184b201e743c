# SPDX-License-Identifier: Apache-2.0
"""bench/python/python_latency.py measures what it says: each operation of each
subject that is there, in processes of their own; and its table has them all."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"

OPERATIONS = {
    ("nothing", "python"), ("device memory", "moiety"),
    ("device memory", "moiety_stream"), ("pinned memory", "moiety"),
    ("pinned memory", "moiety_block"), ("pinned memory", "moiety_done"),
} | {(f"numba {name}", subject) for subject in ("numba", "moiety")
     for name in ("memalloc", "device_array", "pinned_array")}


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, "-B", BENCH / script, *arguments], text=True,
        stdout=subprocess.PIPE, timeout=2500, check=True).stdout


def test_measures_what_is_there(tmp_path):
    output = run("python/python_latency.py", "--processes=1", "--cell-ms=1",
                 "--threads=1,3", "--kinds=moiety,numba,numba_moiety")
    about, *rows = map(json.loads, output.splitlines())
    assert about["what"] == "run" and about["is_standin"] is True
    assert [row for row in rows if row["error"] or row["skipped"]] == []
    assert {(row["operation"], row["subject"], row["threads"])
            for row in rows} == {(*one, threads) for one in OPERATIONS
                                 for threads in (1, 3)}

    (tmp_path / "rows").write_text(output)
    lines = run("tables/python_table.py", str(tmp_path / "rows")).splitlines()
    for operation, subject in OPERATIONS:
        assert sum(line.startswith(f"| {operation} |")
                   and f" | {subject} | " in line for line in lines) == 2
