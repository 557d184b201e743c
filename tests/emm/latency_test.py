# SPDX-License-Identifier: Apache-2.0
"""bench/python/python_latency.py measures what it says: each operation of each
subject that is there, in processes of their own; and its table has them all."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"

# And in how many sizes.
OPERATIONS = {
    ("nothing", "python"): 1, ("pinned memory", "moiety"): 1,
    ("pinned memory", "moiety_block"): 1, ("pinned memory", "moiety_done"): 1,
} | {(f"numba {name}", subject): 1 for subject in ("numba", "moiety")
     for name in ("device_array", "pinned_array")
} | {(f"{sizes}{operation}", subject): 2
     for operation, subject in (
         ("device memory", "moiety"), ("device memory", "moiety_stream"),
         ("device memory", "cuda_core_moiety"), ("numba memalloc", "numba"),
         ("numba memalloc", "moiety"))
     for sizes in ("", "mixed ", "live ")}


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, "-B", BENCH / script, *arguments], text=True,
        stdout=subprocess.PIPE, timeout=2500, check=True).stdout


def test_measures_what_is_there(tmp_path):
    output = run("python/python_latency.py", "--processes=1", "--cell-ms=1",
                 "--threads=1,3",
                 "--kinds=moiety,cuda_core_moiety,numba,numba_moiety")
    about, *rows = map(json.loads, output.splitlines())
    assert about["what"] == "run" and about["is_standin"] is True
    assert [row for row in rows if row["error"] or row["skipped"]] == []
    assert {(row["operation"], row["subject"], row["threads"])
            for row in rows} == {(*one, threads) for one in OPERATIONS
                                 for threads in (1, 3)}

    (tmp_path / "rows").write_text(output)
    lines = run("tables/python_table.py", str(tmp_path / "rows")).splitlines()
    for (operation, subject), sizes in OPERATIONS.items():
        assert sum(line.startswith(f"| {operation} |")
                   and f" | {subject} | " in line for line in lines) == 2 * sizes
