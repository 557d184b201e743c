# SPDX-License-Identifier: Apache-2.0
"""Turns results of //bench:host into Markdown.

    host_table.py FILE...

Each FILE holds a JSON object a line, as //bench:host prints them. A cell is the
median over the processes of what each found (its median, where it has several
numbers), with the least and the most of a process behind it; and the number of
processes where that is not what was asked for. What was skipped or failed
stands below, with its reason: nothing is left out.
"""

import statistics
import sys

from table_text import (BadInput, in_order, number_text, read_rows, size_text,
                        spread_text, table)

COMMON = ("what", "subject", "process", "skipped", "error")
GIB = 1 << 30
STAGES = (("map", "map_ns"), ("bind", "bind_ns"), ("touch", "stage_touch_ns"),
          ("register", "register_ns"), ("read back", "read_back_ns"))


def read(path):
    return read_rows(path, COMMON)


class Cells:
    """Rows of one kind, by what tells them apart; each kept once a process."""

    def __init__(self, rows, what, keys, repeats):
        self.repeats = repeats
        self.groups = {}
        for row in rows:
            if row["what"] != what or row["error"] is not None or \
                    row["skipped"] is not None:
                continue
            try:
                group = self.groups.setdefault(
                    tuple(row[key] for key in keys), {})
            except KeyError as error:
                raise BadInput(f"a row of {what} has no {error}") from error
            if row["process"] in group:
                raise BadInput(f"{what}, {row['subject']}, process "
                               f"{row['process']}: measured twice")
            group[row["process"]] = row

    def numbers(self, group, key):
        return [row[key] for row in self.groups.get(group, {}).values()
                if key in row]

    def text(self, group, key, scale=1.0):
        """"median (least–most)", and "of N" where N is not all."""
        numbers = [number * scale for number in self.numbers(group, key)]
        if not numbers:
            return "–"
        text = spread_text(numbers)
        if len(numbers) != self.repeats:
            text += f", of {len(numbers)}"
        return text


def staging_lines(rows, run):
    cells = Cells(rows, "staging", ("subject", "size_bytes"), run["repeats"])
    sizes = sorted({size for _, size in cells.groups})
    subjects = in_order(subject for subject, _ in cells.groups)
    yield "Staging buffer, allocation and free, ns"
    yield ""
    yield from table(
        ["subject", *map(size_text, sizes)], len(sizes),
        ([subject, *(cells.text((subject, size), "ns_median")
                     for size in sizes)] for subject in subjects))


def ratio_text(cells, group, is_standin):
    """By the driver's of the same process. The stand-in's call has no pages when
    it returns, so that there is nothing to compare."""
    if is_standin:
        return "–"
    size = group[1]
    driver = cells.groups.get(("driver", size), {})
    ratios = [row["ns"] / driver[process]["ns"]
              for process, row in cells.groups[group].items()
              if process in driver]
    return number_text(statistics.median(ratios)) if ratios else "–"


def touch_text(cells, group):
    """The driver's pages are touched when it has returned."""
    if cells.numbers(group, "touch_ns"):
        return f"afterwards {cells.text(group, 'touch_ns', 1e-6)}"
    return cells.text(group, "stage_touch_ns", 1e-6)


def stage_texts(cells, group):
    return [touch_text(cells, group) if key == "stage_touch_ns"
            else cells.text(group, key, 1e-6) for _, key in STAGES]


def reports_text(cells, group):
    reports = in_order(cells.numbers(group, "report"))
    return "; ".join(reports) if reports else "–"


def start_lines(rows, run):
    cells = Cells(rows, "start", ("subject", "size_bytes"), run["repeats"])
    groups = sorted(cells.groups, key=lambda group: (group[1], group[0]))
    yield "Start of an arena, ms"
    yield ""
    yield from table(
        ["size", "subject", "all", "÷ driver", *(name for name, _ in STAGES),
         "threads", "its end"], 4 + len(STAGES),
        ([size_text(group[1]), group[0], cells.text(group, "ns", 1e-6),
          ratio_text(cells, group, run["is_standin"]),
          *stage_texts(cells, group),
          "/".join(map(str, in_order(cells.numbers(group, "threads")))) or "–",
          cells.text(group, "destroy_ns", 1e-6)] for group in groups))
    yield ""
    yield from table(
        ["size", "subject", "pages", "on the nodes", "elsewhere", "it says"], 0,
        ([size_text(group[1]), group[0],
          *(cells.text(group, key) for key in
            ("pages_asked", "pages_near", "pages_elsewhere")),
          reports_text(cells, group)]
         for group in groups if cells.numbers(group, "pages_asked")))
    waited = [group for group in groups if cells.numbers(group, "others_wait_ns")]
    if not waited:
        return
    yield ""
    yield from table(
        ["size", "subject", "first piece, ms", "others wait, ms"], 2,
        ([size_text(group[1]), group[0], cells.text(group, "first_ns", 1e-6),
          cells.text(group, "others_wait_ns", 1e-6)] for group in waited))


def bandwidth_lines(rows, run):
    cells = Cells(rows, "bandwidth", ("direction", "subject", "size_bytes"),
                  run["repeats"])
    groups = sorted(cells.groups, key=lambda group: (group[0] != "h2d", group))
    yield "Copies, 10^9 bytes a second"
    yield ""
    yield from table(
        ["direction", "subject", "blocks of", "node", "rate", "÷ driver"], 3,
        ([group[0], group[1], size_text(group[2]),
          "/".join(map(str, in_order(cells.numbers(group, "node")))) or "–",
          cells.text(group, "gb_s_median"), cells.text(group, "ratio_median")]
         for group in groups))


def pipeline_lines(rows, run):
    cells = Cells(rows, "pipeline",
                  ("subject", "fill", "workers", "size_bytes"),
                  run["repeats"])
    yield "Pipeline to the device"
    yield ""
    yield from table(
        ["subject", "filled", "workers", "blocks of", "10^9 bytes a second",
         "% of bare copies"], 2,
        ([subject, "yes" if fill else "no", str(workers), size_text(size),
          cells.text(group, "gb_s"), cells.text(group, "percent_of_bare")]
         for group in cells.groups
         for subject, fill, workers, size in [group]))


def over_text(row, key):
    over = row[key] / row["wanted_bytes"] - 1
    return f"{row[key] / GIB:.4f} (+{over * 100:.2f} %)"


def waste_lines(rows, _):
    cells = Cells(rows, "waste", ("subject", "of", "scale"), 1)
    yield "Requests, GiB"
    yield ""
    yield from table(
        ["memory", "request of", "asked for", "reserved", "power of two"], 3,
        ([subject + (f", 1/{scale}" if scale > 1 else ""), of,
          f"{row['wanted_bytes'] / GIB:.4f}", over_text(row, "reserved_bytes"),
          over_text(row, "power_of_two_bytes")]
         for (subject, of, scale), group in cells.groups.items()
         for row in group.values()))


PARTS = (("staging", staging_lines), ("start", start_lines),
         ("bandwidth", bandwidth_lines), ("pipeline", pipeline_lines),
         ("waste", waste_lines))


def card_lines(run):
    for key in ("cpu", "processors", "nodes_with_memory", "device", "place",
                "commit", "repeats", "cell_ms"):
        yield f"- {key}: {run[key]}"
    driver = f"{run['driver']}, CUDA {run['driver_version'] // 1000}." \
             f"{run['driver_version'] % 1000 // 10}"
    if run["is_standin"]:
        cost = "simulated" if run["simulated_costs"] else "this machine's"
        driver += f" (stand-in, no GPU; its times are {cost})"
    yield f"- driver: {driver}"
    if run["moiety_conf"]:
        yield f"- MOIETY_CONF: {run['moiety_conf']}"


def absence_lines(rows):
    """What has no number, by reason; how often."""
    reasons = {}
    for row in rows:
        for kind in ("skipped", "error"):
            if row[kind] is not None:
                name = row["what"] if row["subject"] is None else \
                    f"{row['what']}, {row['subject']}"
                if "size_bytes" in row:
                    name += f", {size_text(row['size_bytes'])}"
                key = (kind, name, row[kind])
                reasons[key] = reasons.get(key, 0) + 1
    if reasons:
        yield ""
    for (kind, name, why), count in reasons.items():
        yield f"- {'FAILED' if kind == 'error' else kind}: {name}: {why}" + \
            (f" ({count} times)" if count > 1 else "")


def run_of(rows):
    """The one row that is about the run."""
    runs = [row for row in rows if row["what"] == "run"]
    if len(runs) != 1:
        raise BadInput(f"there are {len(runs)} rows of a run, not one: "
                       "a table is of one run")
    return runs[0]


def markdown(rows):
    run = run_of(rows)
    if run["error"] is not None:
        raise BadInput(f"the run failed: {run['error']}")
    lines = list(card_lines(run))
    for what, part_lines in PARTS:
        measured = [row for row in rows if row["what"] == what]
        if any(row["error"] is None and row["skipped"] is None
               for row in measured):
            lines += ["", *part_lines(measured, run)]
    return "\n".join([*lines, *absence_lines(rows)])


def print_tables(name, make, arguments):
    """The program `name`, whose tables make() has of rows: its exit status."""
    if not arguments or arguments[0].startswith("-"):
        print(f"usage: {name}.py FILE...", file=sys.stderr)
        return 2
    try:
        print(make([row for path in arguments for row in read(path)]))
    except (BadInput, KeyError) as error:
        why = f"a row has no {error}" if isinstance(error, KeyError) else error
        print(f"{name}: {why}", file=sys.stderr)
        return 1
    return 0


def main(arguments):
    return print_tables("host_table", markdown, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
