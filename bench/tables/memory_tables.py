# SPDX-License-Identifier: Apache-2.0
"""Tables of //bench:waste and //bench:ipc, whose rows say nothing of where they
were measured."""

import statistics

import circumstances
from table_text import (BadInput, number_text, read_rows, size_text,
                        table)

GIB = 1 << 30
# Below it every request holds the same.
REQUEST_MIN = 512
# ns at most.
IPC_TARGETS = {"export": 200, "import, segment open": 500}


def rows_of(paths, what, keys):
    rows = [row for path in paths for row in read_rows(path, ("what",))
            if row["what"] == what]
    if not rows:
        raise BadInput(f"there is no row of {what} in {', '.join(paths)}")
    for row in rows:
        if any(key not in row for key in keys):
            raise BadInput(f"a row of {what} lacks one of {', '.join(keys)}")
    return rows


def over(row, key):
    """What `key` is above the request, in percent."""
    return (row[key] / row["wanted_bytes"] - 1) * 100


def percent_text(percent):
    return f"{percent:.2f} %"


def doubling_texts(rows):
    worst = max(rows, key=lambda row: over(row, "held_bytes"))
    ends = [pick(row["wanted_bytes"] for row in rows) for pick in (min, max)]
    return [" to ".join(map(size_text, ends)), str(len(rows)),
            percent_text(statistics.mean(over(row, "held_bytes")
                                         for row in rows)),
            percent_text(over(worst, "held_bytes")),
            str(worst["wanted_bytes"]), str(worst["held_bytes"]),
            percent_text(statistics.mean(over(row, "power_of_two_bytes")
                                         for row in rows))]


def request_lines(options, paths):
    """By doublings of what was asked for."""
    rows = rows_of(paths, "request", ("wanted_bytes", "held_bytes",
                                      "power_of_two_bytes"))
    doublings = {}
    for row in rows:
        if row["wanted_bytes"] > REQUEST_MIN:
            doublings.setdefault((row["wanted_bytes"] - 1).bit_length(),
                                 []).append(row)
    yield circumstances.line({}, options)
    yield ""
    yield from table(
        ["requests", "number", "over, mean", "over, worst",
         "of request, bytes", "which holds, bytes", "power of two, mean"], 6,
        (doubling_texts(doublings[order]) for order in sorted(doublings)))


def metadata_texts(row):
    return [size_text(row["block_bytes"]), str(row["block_count"]),
            str(row["host_bytes"]),
            f"{row['host_bytes'] / row['block_count']:.2f}",
            f"{row['host_bytes'] / GIB * 100:.4f} %"]


def metadata_lines(options, paths):
    """What the host keeps of 1 GiB in blocks of one size."""
    rows = rows_of(paths, "metadata", ("block_bytes", "block_count",
                                       "host_bytes"))
    yield circumstances.line({}, options)
    yield ""
    yield from table(
        ["blocks of", "number", "bytes of the host a GiB", "a block",
         "of the memory"], 5, map(metadata_texts, rows))


def ipc_texts(row):
    target = IPC_TARGETS.get(row["call"])
    least, most = (number_text(row[key]) for key in ("least_ns", "most_ns"))
    return [row["call"], "" if target is None else f"≤ {target}",
            f"{number_text(row['median_ns'])} ({least}–{most})",
            str(row["batches"])]


def ipc_lines(options, paths):
    """What sharing between two processes costs."""
    rows = [row for path in paths for row in read_rows(
        path, ("call", "median_ns", "least_ns", "most_ns", "batches",
               "standin"))]
    if any(row["standin"] for row in rows) and "stand-in" not in options.get(
            "driver", ""):
        raise BadInput("the rows are of the stand-in: --driver= says it")
    yield circumstances.line({}, options)
    yield ""
    yield from table(["call", "target", "median (least–most), ns", "batches"],
                     3, map(ipc_texts, rows))
