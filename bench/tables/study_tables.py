# SPDX-License-Identifier: Apache-2.0
"""Tables of //bench:fill and //bench:limit."""

import statistics

import circumstances
from replay_rows import facts_of, grouped, is_refused, lag_of
from table_text import (BadInput, in_order, read_rows, size_text, spread_text,
                        table)

KEYS = ("kind", "subject", "lag", "machine", "driver", "device", "is_standin",
        "is_simulated", "commit", "date")
MIB = 1 << 20


def read(paths, kind):
    rows = [row for path in paths for row in read_rows(path, KEYS)
            if row["kind"] == kind]
    if not any(not is_refused(row) for row in rows):
        raise BadInput(f"there is no row of {kind} in {', '.join(paths)}")
    return rows


def found_of(rows, repeats):
    measured = [row for row in rows if not is_refused(row)]
    return facts_of(measured, [repeats])


def refusal_lines(rows):
    reasons = in_order((row["subject"], row["refused"])
                       for row in rows if is_refused(row))
    if reasons:
        yield ""
    for subject, why in reasons:
        yield f"- {subject} was not run: {why}"


def percent(row):
    """Live when an allocation failed, of what would fit."""
    return row["blocks"] / row["most_blocks"] * 100


def block_text(size_bytes):
    """All that tells it from another size."""
    beyond = size_bytes % MIB
    if size_bytes > MIB and 0 < beyond < 512:
        return f"{size_text(size_bytes - beyond)} + {beyond}"
    return size_text(size_bytes)


def fill_texts(size_bytes, rows, subjects):
    found = {row["subject"]: f"{percent(row):.1f}" for row in rows}
    return [block_text(size_bytes),
            *(found.get(subject, "–") for subject in subjects)]


def random_texts(subject, rows):
    percents = sorted(map(percent, rows))
    below = sum(one < 97 for one in percents)
    return [subject, str(len(percents)), f"{statistics.mean(percents):.1f}",
            f"{statistics.median(percents):.1f}", f"{percents[0]:.1f}",
            str(below)]


def fill_lines(options, paths):
    """By sizes, and of random ones what they come to."""
    rows = read(paths, "fill")
    fits = [row for row in rows if not is_refused(row) and row["most_blocks"]]
    limits = in_order(row["limit_bytes"] for row in fits)
    if len(limits) != 1:
        raise BadInput("rows with several limits are not of one table")
    yield circumstances.line(found_of(rows, 1), options)
    yield from ["", f"Live when a limit of {size_text(limits[0])} is full of "
                "blocks of one size, % of what would fit", ""]
    subjects = in_order(row["subject"] for row in fits)
    fixed = [row for row in fits if not row["is_random"]]
    yield from table(["size", *subjects], len(subjects),
                     (fill_texts(size_bytes, group, subjects)
                      for size_bytes, group in grouped(
                          fixed, lambda row: row["size_bytes"]).items()))
    random = grouped([row for row in fits if row["is_random"]],
                     lambda row: row["subject"])
    if random:
        yield ""
        yield from table(["random sizes", "number", "mean", "median", "least",
                          "below 97 %"], 5,
                         (random_texts(*pair) for pair in random.items()))
    yield from refusal_lines(rows)


def mean_text(rows, key):
    return spread_text([row[key] for row in rows])


def failed_text(rows):
    return spread_text([row["failed"] for row in rows])


def lag_text(rows):
    return lag_of(rows[0])


def limit_texts(rows):
    """Of repeats."""
    first = rows[0]
    factor = f"{first['factor']:g}" if first["factor"] else "none"
    by_peak = statistics.median(row["limit_bytes"] / row["peak_live_bytes"]
                                for row in rows)
    return [first["subject"], lag_text(rows), str(first["threads"]), factor,
            f"{by_peak:.2f}" if first["factor"] else "–",
            mean_text(rows, "mean_ns"), mean_text(rows, "slowest_ns"),
            failed_text(rows)]


def first_texts(rows):
    ratios = [row["first_ns"] / row["mean_ns"] for row in rows]
    return [rows[0]["subject"], lag_text(rows), mean_text(rows, "first_ns"),
            mean_text(rows, "mean_ns"), spread_text(ratios)]


def pair_texts(rows):
    return [rows[0]["subject"], lag_text(rows), str(rows[0]["threads"]),
            mean_text(rows, "mean_ns"), mean_text(rows, "slowest_ns"),
            failed_text(rows)]


# Of each part the heading, the columns, how many are numbers, and its texts.
LIMIT_PARTS = {
    "limits": ("64 blocks of 256 B to 2 MiB a thread, and a limit: ns of a "
               "pair",
               ["subject", "lag", "threads", "limit ÷ mean live", "÷ most live",
                "mean", "slowest thread", "failed"], 6, limit_texts),
    "first": ("The first pairs of a new pool, one thread: ns of a pair",
              ["subject", "lag", "first", "warm", "first ÷ warm"], 3,
              first_texts),
    "pair": ("32 MiB allocated and freed: ns of a pair",
             ["subject", "lag", "threads", "mean", "slowest thread", "failed"],
             4, pair_texts),
}

# Rows that differ in none of these are repeats.
CELL_KEYS = ("subject", "lag", "threads", "streams", "factor", "size_bytes",
             "blocks")


def part_lines(part, rows):
    title, head, right, texts = part
    cells = grouped(rows, lambda row: tuple(map(row.get, CELL_KEYS)))
    yield from ["", title, ""]
    yield from table(head, right, map(texts, cells.values()))


def parts_lines(kind, parts, options, paths):
    """Each part that there are rows of."""
    rows = read(paths, kind)
    measured = [row for row in rows if not is_refused(row)]
    repeats = len(in_order(row["repeat"] for row in measured))
    yield circumstances.line(found_of(rows, repeats), options)
    for name, part in parts.items():
        of_part = [row for row in measured if row.get("part") == name]
        if of_part:
            yield from part_lines(part, of_part)
    yield from refusal_lines(rows)


def limit_lines(options, paths):
    return parts_lines("limit", LIMIT_PARTS, options, paths)
