# SPDX-License-Identifier: Apache-2.0
"""The tables that blocks of docs/results.md may ask for, by name."""

import circumstances
import host_table
import python_table
import replay_table
import table
from table_maker import Maker
from table_text import BadInput


def asked(options, key, rows):
    """Rows whose `key` the option of that name lists, in its order."""
    if key not in options:
        return rows
    picked = []
    for name in options[key].split(","):
        named = [row for row in rows if str(row[key]) == name]
        if not named:
            raise BadInput(f"--{key}={options[key]}: there is no {name}")
        picked += named
    return picked


def pool_found(rows):
    measured = [row for row in rows if row["ns_per_op_median"] is not None]
    return {
        "cpu": [circumstances.cpu_text(row["cpu"], row["processors"])
                for row in measured],
        "driver": [circumstances.driver_text(
            row["driver"], row["is_standin"], row["simulated_costs"])
            for row in measured if row["driver"] != "none"],
        "commit": [row["commit"] for row in measured],
        "repeats": [row["repeats"] for row in measured],
    }


def pool_lines(options, paths):
    """Of //bench:bench."""
    value = options.get("value", "median")
    if value not in table.VALUES:
        raise BadInput(f"--value={value} is none of {', '.join(table.VALUES)}")
    rows = [row for path in paths for row in table.read(path)]
    rows = asked(options, "subject", rows)
    rows = asked(options, "workload", rows)
    rows = asked(options, "threads", rows)
    yield circumstances.line(pool_found(rows), options)
    yield from ["", table.VALUES[value][1], "", *table.table_lines(rows, value),
                *table.failure_lines(rows)]


def run_found(run):
    """What the row about the run says; the driver's name is not in all."""
    version = run["driver_version"]
    name = f"{run.get('driver') or 'libcuda.so.1'}, " \
           f"CUDA {version // 1000}.{version % 1000 // 10}"
    return {
        "device": [run["device"]],
        "cpu": [circumstances.cpu_text(run["cpu"], run["processors"])],
        "driver": [circumstances.driver_text(
            name, run["is_standin"], run.get("simulated_costs", False))],
        "commit": [run["commit"]],
        "repeats": [run["repeats"]],
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
    yield circumstances.line(run_found(run), options)
    yield from ["", *parts[part](rows, run), *host_table.absence_lines(rows)]


def python_lines(options, paths):
    """Of bench/python_latency.py."""
    rows = [row for path in paths for row in host_table.read(path)]
    run = host_table.run_of(rows)
    rows = [row for row in rows if row["what"] == "latency"]
    yield circumstances.line(run_found(run), options)
    yield from ["", python_table.versions_text(rows, run), "",
                *python_table.latency_lines(rows, run),
                *host_table.absence_lines(rows)]


MAKERS = {
    "pool": Maker(pool_lines, ("value", "subject", "workload", "threads")),
    "host": Maker(host_lines, ("part",)),
    "python": Maker(python_lines, ()),
    **{f"replay-{name}": maker for name, maker in replay_table.TABLES.items()},
}
