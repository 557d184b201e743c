# SPDX-License-Identifier: Apache-2.0
"""How long a replay's operations took, by the number of threads; and how that
compares with the fastest other subject, with PyTorch and with its algorithm."""

import statistics

import circumstances
import replay_rows
from table_text import number_text, spread_text, table

QUANTITIES = ("median", "p99", "max", "mean")
OURS = "moiety"
COMPARED = (replay_rows.REFERENCE, "torch")


def times(rows, quantity):
    return [row["latency_ns"]["all"][quantity] for row in rows]


def median(rows, quantity):
    return statistics.median(times(rows, quantity))


def failed(rows):
    return max(row.get("ooms") or 0 for row in rows)


def subject_texts(threads, subject, rows):
    return [str(threads), subject,
            *(spread_text(times(rows, quantity)) for quantity in QUANTITIES),
            number_text(failed(rows))]


def fastest_text(subjects, quantity):
    """Who refuses requests is not fast; it is not compared."""
    peers = {subject: median(rows, quantity)
             for subject, rows in subjects.items()
             if not replay_rows.is_ours(subject) and not failed(rows)}
    if not peers:
        return "–"
    peer = min(peers, key=peers.get)
    ratio = median(subjects[OURS], quantity) / peers[peer]
    return f"{number_text(ratio)} ({peer})"


def against_text(subjects, other, quantity):
    return number_text(median(subjects[OURS], quantity)
                       / median(subjects[other], quantity))


def comparison_texts(threads, subjects):
    if OURS not in subjects:
        return
    yield [str(threads), "the fastest other",
           *(fastest_text(subjects, quantity) for quantity in QUANTITIES)]
    for other in COMPARED:
        if other in subjects:
            yield [str(threads), other,
                   *(against_text(subjects, other, quantity)
                     for quantity in QUANTITIES)]


def trace_lines(rows):
    """By threads, then by subject."""
    cells = {threads: replay_rows.by_subject(group) for threads, group in
             sorted(replay_rows.grouped(
                 rows, lambda row: row["threads"]).items())}
    yield f"{replay_rows.trace_text(rows[0])}; ns of an operation"
    yield ""
    yield from table(
        ["threads", "subject", *QUANTITIES, "failed requests"], 5,
        (subject_texts(threads, subject, group)
         for threads, subjects in cells.items()
         for subject, group in subjects.items()))
    compared = [texts for threads, subjects in cells.items()
                for texts in comparison_texts(threads, subjects)]
    if compared:
        yield ""
        yield from table(["threads", f"{OURS} ÷", *QUANTITIES], 4, compared)


def latency_lines(options, paths):
    rows = replay_rows.read(paths, options.get("mode", "concurrent"))
    yield circumstances.line(replay_rows.found_of(rows), options)
    for group in replay_rows.by_trace(rows).values():
        measured = [row for row in group if not replay_rows.is_refused(row)]
        if measured:
            yield from ["", *trace_lines(measured)]
    yield from replay_rows.refusal_lines(rows)
