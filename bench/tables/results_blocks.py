# SPDX-License-Identifier: Apache-2.0
"""The tables that blocks of the pages of results may ask for, by name. Each has the
line about its circumstances above it."""

import circumstances
import host_table
import memory_tables
import pool_rows
import python_table
import replay_table
import table
from table_maker import Maker
from table_text import BadInput


def pool_lines(options, paths):
    """Of //bench:bench."""
    value = options.get("value", "median")
    if value not in table.VALUES:
        raise BadInput(f"--value={value} is none of {', '.join(table.VALUES)}")
    rows = [row for path in paths for row in table.read(path)]
    for key in ("subject", "workload", "threads"):
        rows = pool_rows.asked(options, key, rows)
    yield circumstances.line(pool_rows.found_of(rows), options)
    yield from ["", table.VALUES[value][1], "", *table.table_lines(rows, value),
                *table.failure_lines(rows)]


def run_found(run, rows):
    """What the row about the run says; the driver's name is not in all."""
    version = run["driver_version"]
    name = f"CUDA {version // 1000}.{version % 1000 // 10}"
    if "driver" in run:
        name = f"{run['driver']}, {name}"
    return {
        "device": [run["device"]],
        "cpu": [circumstances.cpu_text(run["cpu"], run["processors"])],
        "driver": [circumstances.driver_text(
            name, run["is_standin"], run.get("simulated_costs", False))],
        "commit": [run["commit"]],
        "repeats": [len({row["process"] for row in rows})],
    }


def host_lines(options, paths):
    """A part of what //bench:host measured."""
    parts = dict(host_table.PARTS)
    part = options.get("part")
    if part not in parts:
        raise BadInput(f"--part={part} is none of {', '.join(parts)}")
    rows = [row for path in paths for row in host_table.read(path)]
    run = host_table.run_of(rows)
    rows = [row for row in rows if row["what"] == part]
    yield circumstances.line(run_found(run, rows), options)
    yield from ["", *parts[part](rows, run), *host_table.absence_lines(rows)]


def python_lines(options, paths):
    """Of bench/python/python_latency.py."""
    rows = [row for path in paths for row in host_table.read(path)]
    run = host_table.run_of(rows)
    rows = [row for row in rows if row["what"] == "latency"]
    yield circumstances.line(run_found(run, rows), options)
    yield from ["", python_table.versions_text(rows, run), "",
                *python_table.latency_lines(rows, run),
                *host_table.absence_lines(rows)]


MAKERS = {
    "pool": Maker(pool_lines, ("value", "subject", "workload", "threads")),
    "host": Maker(host_lines, ("part",)),
    "python": Maker(python_lines, ()),
    "waste": Maker(memory_tables.request_lines, ()),
    "metadata": Maker(memory_tables.metadata_lines, ()),
    "ipc": Maker(memory_tables.ipc_lines, ()),
    **{f"replay-{name}": maker for name, maker in replay_table.TABLES.items()},
}
