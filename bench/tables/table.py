# SPDX-License-Identifier: Apache-2.0
"""Turns results of the benchmarks into Markdown.

    table.py [--value=VALUE] FILE...

Each FILE holds a JSON object a line, as //bench:bench writes them. Prints one
table: a row for each workload, size and number of threads, a column for each
subject; in it ns per operation: the median over the processes of the median
over the batches, and the least and greatest median of a process. VALUE asks for
another number: mean, median_mean (the median and, behind it, the mean), p99,
p999 (of batches), call_p99, call_p999 (of calls) or hits (the cache's, in
percent). An asterisk marks numbers from repetitions in
which the system took the processor from a thread, a dagger those of fewer
processes than were wanted, whose reasons stand below the table. Above it stands
what was measured on what.

A file that ends with .raw.jsonl, of a run that was killed, has an object for
each process: they are put together first.
"""

import statistics
import sys

from table_text import (BadInput, number_text, read_rows, size_text, span,
                        table)

VALUES = {
    "median": ("ns_per_op_median", "ns per operation: median of batches "
               "(least–most over processes)"),
    "mean": ("ns_per_op_mean", "ns per operation: mean"),
    "median_mean": ("ns_per_op_median",
                    "ns per operation: median of batches (mean)"),
    "p99": ("ns_per_op_p99", "ns per operation: 99 % of batches"),
    "p999": ("ns_per_op_p999", "ns per operation: 99.9 % of batches"),
    "call_p99": ("ns_per_call_p99", "ns per call: 99 %"),
    "call_p999": ("ns_per_call_p999", "ns per call: 99.9 %"),
    "hits": ("cache_hit_rate", "allocations that the thread's cache served"),
}
CARD = ("cpu", "processors", "commit", "repeats", "cell_us", "seed", "pinned")
# More cells of one subject that failed for one reason are counted.
CELLS_NAMED_MAX = 4
# What is a range rather than a list of values.
RANGES = ("cell_us",)
MEDIANS = tuple(sorted({key for key, _ in VALUES.values()}))
KEYS = CARD + MEDIANS + (
    "workload", "subject", "threads", "size_bytes", "ns_per_op_median_min",
    "ns_per_op_median_max", "clean", "driver", "is_standin", "simulated_costs",
    "failure")


def read(path):
    rows = read_rows(path, KEYS)
    return join_processes(rows) if path.endswith(".raw.jsonl") else rows


def value_text(value, result):
    number = result[VALUES[value][0]]
    if number is None:
        return "–" if result["failure"] is None else "†"
    mark = "" if result["clean"] else "\\*"
    mark += "" if result["failure"] is None else "†"
    if value == "hits":
        return f"{number * 100:.1f} %{mark}"
    if value == "median_mean":
        return (f"{number_text(number)}{mark} "
                f"({number_text(result['ns_per_op_mean'])})")
    if value != "median":
        return f"{number_text(number)}{mark}"
    least, most = (number_text(result["ns_per_op_median" + suffix])
                   for suffix in ("_min", "_max"))
    return f"{number_text(number)}{mark} ({least}–{most})"


def cell_text(value, result):
    return "–" if result is None else value_text(value, result)


def cell_name(result):
    return (f"{result['workload']}, {size_text(result['size_bytes'])}, "
            f"{result['threads']} threads")


def joined(processes):
    """What //bench:bench would have written of these processes."""
    def numbers(key):
        return [row[key] for row in processes if row[key] is not None]
    medians = numbers("ns_per_op_median")
    return {
        **processes[0],
        **{key: statistics.median(numbers(key)) if numbers(key) else None
           for key in MEDIANS},
        "ns_per_op_median_min": min(medians),
        "ns_per_op_median_max": max(medians),
        "repeats": len(processes),
        "cell_us": min(numbers("cell_us")),
        "clean": all(numbers("clean")),
        "pinned": all(numbers("pinned")),
    }


def join_processes(rows):
    cells = {}
    for row in rows:
        cells.setdefault((row["workload"], row["size_bytes"], row["threads"],
                          row["subject"]), []).append(row)
    return [joined(processes) for processes in cells.values()]


def arrange(results):
    """Cells by row and subject; a cell twice cannot be shown."""
    rows = {}
    for result in results:
        row = rows.setdefault(
            (result["workload"], result["size_bytes"], result["threads"]), {})
        if result["subject"] in row:
            raise BadInput(f"{cell_name(result)}, {result['subject']}: "
                           "measured twice")
        row[result["subject"]] = result
    return rows


def card_lines(results):
    """What all results have in common, and what differs by subject."""
    measured = [r for r in results if r["ns_per_op_median"] is not None]
    for key in CARD:
        values = sorted({result[key] for result in measured})
        if key in RANGES:
            values = [span(values)]
        yield f"- {key}: {', '.join(map(str, values))}"
    for subject, driver in sorted({(r["subject"], driver_text(r))
                                   for r in measured if r["driver"] != "none"}):
        yield f"- driver of {subject}: {driver}"


def driver_text(result):
    if not result["is_standin"]:
        return result["driver"]
    cost = ("costs are simulated" if result["simulated_costs"]
            else "costs are this machine's")
    return f"{result['driver']} (stand-in, no GPU; {cost})"


def table_lines(results, value):
    subjects = list(dict.fromkeys(result["subject"] for result in results))
    yield from table(
        ["workload", "size", "threads", *subjects], 2 + len(subjects),
        ([workload, size_text(size_bytes), str(threads),
          *(cell_text(value, row.get(subject)) for subject in subjects)]
         for (workload, size_bytes, threads), row in arrange(results).items()))


def failure_lines(results):
    """By subject and reason; the cells by name where they are few."""
    groups = {}
    for row in results:
        if row["failure"] is not None:
            groups.setdefault((row["subject"], row["failure"]), []).append(row)
    if groups:
        yield ""
    for (subject, why), rows in groups.items():
        cells = f"{len(rows)} cells"
        if len(rows) <= CELLS_NAMED_MAX:
            cells = "; ".join(map(cell_name, rows))
        yield (f"- † {subject}, {span(row['repeats'] for row in rows)} "
               f"processes, {why}: {cells}")


def markdown(results, value):
    if not results:
        raise BadInput("there are no results")
    return "\n".join([*card_lines(results), "", VALUES[value][1], "",
                      *table_lines(results, value), *failure_lines(results)])


def main(arguments):
    value = "median"
    if arguments and arguments[0].startswith("--value="):
        value = arguments[0].split("=", 1)[1]
        arguments = arguments[1:]
    if not arguments or value not in VALUES:
        print(f"usage: table.py [--value={'|'.join(VALUES)}] FILE...",
              file=sys.stderr)
        return 2
    try:
        print(markdown([row for path in arguments for row in read(path)],
                       value))
    except BadInput as error:
        print(f"table: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
