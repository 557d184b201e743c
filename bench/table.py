# SPDX-License-Identifier: Apache-2.0
"""Turns results of the benchmarks into Markdown.

    table.py FILE...

Each FILE holds a JSON object a line, as //bench:bench writes them. Prints one
table: a row for each workload, size and number of threads, a column for each
subject; in it the median of ns per operation over the processes, and the least
and greatest median of a process. An asterisk marks numbers from repetitions in
which the system took the processor from a thread. Above it stands what was
measured on what.
"""

import json
import sys

CARD = ("cpu", "processors", "commit", "repeats", "cell_us", "seed", "pinned")
KEYS = CARD + (
    "workload", "subject", "threads", "size_bytes", "ns_per_op_median",
    "ns_per_op_median_min", "ns_per_op_median_max", "clean", "driver",
    "is_standin", "simulated_costs")


class BadInput(Exception):
    """One line that says what is wrong with the files."""


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return [parse(f"{path}:{number}", line)
                    for number, line in enumerate(file, 1)]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def parse(place, line):
    try:
        result = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{place}: no JSON: {error}") from error
    missing = [key for key in KEYS
               if not isinstance(result, dict) or key not in result]
    if missing:
        raise BadInput(f"{place}: no {', '.join(missing)}")
    return result


def size_text(size_bytes):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} B"


def time_text(ns):
    return f"{ns:.1f}" if ns < 100 else f"{ns:.0f}"


def cell_text(result):
    if result is None:
        return "–"
    median, least, most = (
        time_text(result["ns_per_op_median" + suffix])
        for suffix in ("", "_min", "_max"))
    mark = "" if result["clean"] else "\\*"
    return f"{median}{mark} ({least}–{most})"


def arrange(results):
    """Cells by row and subject; a cell twice cannot be shown."""
    rows = {}
    for result in results:
        row = rows.setdefault(
            (result["workload"], result["size_bytes"], result["threads"]), {})
        if result["subject"] in row:
            raise BadInput(
                f"{result['workload']}, {result['size_bytes']} bytes, "
                f"{result['threads']} threads, {result['subject']}: "
                "measured twice")
        row[result["subject"]] = result
    return rows


def card_lines(results):
    """What all results have in common, and what differs by subject."""
    for key in CARD:
        values = sorted({str(result[key]) for result in results})
        yield f"- {key}: {', '.join(values)}"
    for subject, driver in sorted({(r["subject"], driver_text(r))
                                   for r in results if r["driver"] != "none"}):
        yield f"- driver of {subject}: {driver}"


def driver_text(result):
    if not result["is_standin"]:
        return result["driver"]
    cost = ("costs are simulated" if result["simulated_costs"]
            else "costs are this machine's")
    return f"{result['driver']} (stand-in, no GPU; {cost})"


def table_lines(results):
    subjects = list(dict.fromkeys(result["subject"] for result in results))
    yield "| workload | size | threads | " + " | ".join(subjects) + " |"
    yield "|---|--:|--:|" + "--:|" * len(subjects)
    for (workload, size_bytes, threads), row in arrange(results).items():
        cells = " | ".join(cell_text(row.get(subject))
                           for subject in subjects)
        yield f"| {workload} | {size_text(size_bytes)} | {threads} | {cells} |"


def markdown(results):
    if not results:
        raise BadInput("there are no results")
    return "\n".join([*card_lines(results), "",
                      "ns per operation: median (least–most over processes)",
                      "", *table_lines(results)])


def main(paths):
    if not paths:
        print("usage: table.py FILE...", file=sys.stderr)
        return 2
    try:
        print(markdown([result for path in paths for result in read(path)]))
    except BadInput as error:
        print(f"table: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
