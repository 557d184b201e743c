# SPDX-License-Identifier: Apache-2.0
"""Turns results of python_latency.py into Markdown.

    python_table.py FILE...

A number is the median over the processes, of the medians of each; behind it
are the least and the most of a process. "÷ Moiety" is by the first of Moiety's
subjects for the same operation and number of threads. What was skipped or
failed stands below, with its reason.
"""

import statistics
import sys

import host_table
from host_table import Cells
from table_text import in_order, number_text, size_text, table

# What one thread may take at most, in ns.
TARGETS = {
    ("numba memalloc", "moiety"): 2500,
    ("numba device_array", "moiety"): 9000,
    ("pinned memory", "moiety"): 400,
    ("pinned memory", "moiety_done"): 400,
}


def median(cells, group):
    return statistics.median(cells.numbers(group, "ns_median"))


def target_texts(group, ns):
    """The target and what of it was used."""
    operation, _, threads, subject = group
    target = TARGETS.get((operation, subject)) if threads == 1 else None
    if target is None:
        return "–", "–"
    return f"≤ {number_text(target)}", f"{ns / target:.2f}"


def ratio_text(cells, group, ns):
    reference = next((other for other in cells.groups
                      if other[:3] == group[:3]
                      and other[3].startswith("moiety")), None)
    if reference in (None, group):
        return "–"
    return number_text(ns / median(cells, reference))


def row_texts(cells, group):
    operation, size_bytes, threads, subject = group
    ns = median(cells, group)
    return [operation, size_text(size_bytes) if size_bytes else "–",
            str(threads), subject, cells.text(group, "ns_median"),
            ratio_text(cells, group, ns), *target_texts(group, ns)]


def latency_lines(rows, run):
    cells = Cells(rows, "latency",
                  ("operation", "size_bytes", "threads", "subject"),
                  run["repeats"])
    operations = in_order(group[0] for group in cells.groups)
    groups = sorted(cells.groups, key=lambda group: (
        operations.index(group[0]), group[1:3]))
    yield "Getting memory and dropping it, ns (least–most over processes)"
    yield ""
    yield from table(["operation", "size", "threads", "subject", "ns",
                      "÷ Moiety", "target", "of the target"], 4,
                     (row_texts(cells, group) for group in groups))


def versions_text(rows, run):
    measured = {row["subject"]: row["version"] for row in rows
                if row["subject"] in ("cupy", "torch") and "version" in row}
    return ", ".join(f"{name} {version}" for name, version
                     in {**run["versions"], **measured}.items())


def card_lines(rows, run):
    for key in ("cpu", "processors", "device", "commit", "repeats", "cell_ms"):
        yield f"- {key}: {run[key]}"
    version = run["driver_version"]
    yield f"- driver: CUDA {version // 1000}.{version % 1000 // 10}" + (
        " (stand-in, no GPU)" if run["is_standin"] else "")
    yield f"- {versions_text(rows, run)}"
    if run["moiety_conf"]:
        yield f"- MOIETY_CONF: {run['moiety_conf']}"


def markdown(rows):
    run = host_table.run_of(rows)
    measured = [row for row in rows if row["what"] == "latency"]
    return "\n".join([*card_lines(measured, run), "",
                      *latency_lines(measured, run),
                      *host_table.absence_lines(measured)])


if __name__ == "__main__":
    sys.exit(host_table.print_tables("python_table", markdown, sys.argv[1:]))
