# SPDX-License-Identifier: Apache-2.0
"""Rows of //bench:replay, read and put together for the tables of them."""

import json

import circumstances
from table_text import (BadInput, in_order, number_text, read_rows,
                        size_text)

KEYS = ("kind", "trace", "subject", "mode", "threads", "limit_bytes", "machine",
        "driver", "device", "is_standin", "is_simulated", "commit", "date")
GIB = 1 << 30
# Whose algorithm the recorded programs' allocator has.
REFERENCE = "best-fit"
IDLE = "idle"


def read(paths, mode):
    """The rows of `mode`, of which there are some."""
    rows = [row for path in paths for row in read_rows(path, KEYS)]
    rows = [row for row in rows if row["mode"] == mode]
    if not rows:
        raise BadInput(f"there is no {mode} row in {', '.join(paths)}")
    seen = set()
    for row in rows:
        text = json.dumps(row, sort_keys=True)
        if row["kind"] != "replay" or text in seen:
            why = "there twice" if text in seen else "no row of a replay"
            raise BadInput(f"{row['trace']['file']}, {row['subject']}: {why}")
        seen.add(text)
    return rows


def is_refused(row):
    return "refused" in row


def grouped(rows, key):
    """Lists of rows by key(row), in the order of the first of each."""
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def lag_of(row):
    """How far the device lagged; rows of before say nothing, and it idled."""
    return row.get("lag", IDLE)


def lag_text(row):
    """Behind the name of a trace."""
    return "" if lag_of(row) == IDLE else f", device {lag_of(row)}"


def by_trace(rows):
    """By the device's lag, too."""
    return grouped(rows, lambda row: (row["trace"]["file"], lag_of(row)))


def subject_name(row):
    """What was replayed under a limit is told apart."""
    if not row["limit_bytes"]:
        return row["subject"]
    return f"{row['subject']}, at most {row['limit_bytes'] / GIB:.4g} GiB"


def trace_text(row):
    trace = row["trace"]
    threads, streams = trace["threads"], trace["streams"]
    return (f"{trace['file']}: {number_text(trace['operations'])} operations, "
            f"{threads} thread{'s' if threads != 1 else ''}, "
            f"{streams} stream{'s' if streams != 1 else ''}, "
            f"at most {size_text(trace['peak_live_bytes'])} live"
            f"{lag_text(row)}")


def by_subject(rows):
    return grouped(rows, subject_name)


def is_ours(subject):
    return subject.startswith("moiety")


def facts_of(measured, repeats):
    """What rows that were measured say of their circumstances."""
    return {
        "device": [row["device"] for row in measured],
        "cpu": [circumstances.cpu_text(row["machine"]["cpu"],
                                       row["machine"]["processors"])
                for row in measured],
        "driver": [row["driver"] and circumstances.driver_text(
            row["driver"], row["is_standin"], row["is_simulated"])
            for row in measured],
        "date": [row["date"] for row in measured],
        "commit": [row["commit"] for row in measured],
        "repeats": repeats,
    }


def found_of(rows):
    """What the rows say of their circumstances."""
    measured = [row for row in rows if not is_refused(row)]
    repeats = grouped(measured, lambda row: (
        row["trace"]["file"], row["threads"], subject_name(row),
        lag_of(row))).values()
    return facts_of(measured, [len(group) for group in repeats])


def numbers(rows, key):
    """Those that are known."""
    return [row[key] for row in rows if row.get(key) is not None]


def refusal_lines(rows):
    """Who has no numbers, and why."""
    reasons = in_order((subject_name(row), row["refused"])
                       for row in rows if is_refused(row))
    if reasons:
        yield ""
    for subject, why in reasons:
        yield f"- {subject} was not run: {why}"
