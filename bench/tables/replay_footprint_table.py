# SPDX-License-Identifier: Apache-2.0
"""What subjects needed to serve a trace: memory that they reserved, and the
least memory that would have done; beside it what the recorded program had."""

import json
import statistics

import circumstances
import replay_rows
from replay_rows import GIB, REFERENCE
from table_text import BadInput, in_order, number_text, spread_text, table

# Moiety may need this times what the reference does.
TARGET = 1.02
MARK = " ▲"
LEGEND = (f"▲: more than {TARGET} times what {REFERENCE} took, or more than the "
          "recorded program's own allocator did.")


def index_of(path):
    """What is known of the traces, by name."""
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            return {entry["file"].removesuffix(".gz"): entry
                    for entry in json.load(file)["traces"]}
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: no index of traces: {error}") from error


def recorded_of(trace, index):
    """Its allocator's name, and what that had reserved, or None."""
    entry = index.get(trace["file"])
    if entry is None:
        return ("the recorded allocator",
                trace.get("recorded_peak_reserved_bytes"))
    for key in ("operations", "peak_live_bytes"):
        if entry[key] != trace[key]:
            raise BadInput(f"{trace['file']}: {key} is {trace[key]}, but "
                           f"{entry[key]} in the index of traces")
    own = entry["recorded_with"]
    return (f"{own['allocator']}, {own['version']}",
            own["peak_reserved_bytes"])


class Sizes:
    """The sizes of one kind (`key`) of all subjects of a trace."""

    def __init__(self, subjects, key, live_bytes, recorded_bytes):
        self.live_bytes = live_bytes
        self.recorded_bytes = recorded_bytes
        self.numbers = {subject: replay_rows.numbers(rows, key)
                        for subject, rows in subjects.items()}

    def median(self, subject):
        numbers = self.numbers.get(subject)
        return statistics.median(numbers) if numbers else None

    def live_text(self, subject):
        if not self.numbers[subject]:
            return "–"
        text = spread_text([number / self.live_bytes
                            for number in self.numbers[subject]], ratio_text)
        return text + marked(replay_rows.is_ours(subject)
                             and self.recorded_bytes is not None
                             and self.median(subject) > self.recorded_bytes)

    def reference_text(self, subject):
        reference = self.median(REFERENCE)
        if not self.numbers[subject] or not reference:
            return "–"
        ratio = self.median(subject) / reference
        return ratio_text(ratio) + marked(replay_rows.is_ours(subject)
                                          and ratio > TARGET)


def ratio_text(ratio):
    return f"{ratio:.3f}"


def marked(is_more):
    return MARK if is_more else ""


def waste_text(rows, key):
    """Of what was reserved at that moment."""
    percents = [row[key] / row["peak_reserved_bytes"] * 100 for row in rows
                if row.get(key) is not None and row.get("peak_reserved_bytes")]
    if not percents:
        return "–"
    return spread_text(percents, lambda percent: f"{percent:.1f}") + " %"


def count_text(rows, key):
    counts = replay_rows.numbers(rows, key)
    return spread_text(counts, number_text) if counts else "–"


def subject_texts(subject, rows, reserved, limits):
    return [subject, reserved.live_text(subject),
            reserved.reference_text(subject), limits.live_text(subject),
            limits.reference_text(subject),
            waste_text(rows, "waste_internal_bytes"),
            waste_text(rows, "waste_external_bytes"),
            count_text(rows, "driver_calls"), count_text(rows, "ooms")]


def recorded_texts(name, recorded_bytes, live_bytes):
    if recorded_bytes is None:
        return []
    return [[f"{name} (recorded)", ratio_text(recorded_bytes / live_bytes),
             *["–"] * 7]]


def trace_lines(rows, index):
    trace = rows[0]["trace"]
    name, recorded_bytes = recorded_of(trace, index)
    live_bytes = trace["peak_live_bytes"]
    subjects = replay_rows.by_subject(
        [row for row in rows if not replay_rows.is_refused(row)])
    reserved, limits = (Sizes(subjects, key, live_bytes, recorded_bytes)
                        for key in ("peak_reserved_bytes",
                                    "smallest_limit_bytes"))
    yield replay_rows.trace_text(rows[0])
    yield ""
    yield from table(
        ["subject", "most reserved ÷ live", f"÷ {REFERENCE}",
         "smallest limit ÷ live", f"÷ {REFERENCE}", "waste, internal",
         "external", "driver calls", "failed requests"], 8,
        [*recorded_texts(name, recorded_bytes, live_bytes),
         *(subject_texts(subject, group, reserved, limits)
           for subject, group in subjects.items())])


def footprint_lines(options, paths):
    rows = replay_rows.read(paths, "serial")
    index = index_of(options.get("traces"))
    yield circumstances.line(replay_rows.found_of(rows), options)
    text = []
    for group in replay_rows.by_trace(rows).values():
        text += ["", *trace_lines(group, index)]
    yield from text
    if any(MARK in line for line in text):
        yield from ["", LEGEND]
    yield from replay_rows.refusal_lines(rows)


def limit_texts(rows, subjects, index):
    """A trace's line of the table of limits."""
    trace = rows[0]["trace"]
    _, recorded_bytes = recorded_of(trace, index)
    live_bytes = trace["peak_live_bytes"]
    limits = Sizes({subject: [row for row in rows
                              if row["subject"] == subject]
                    for subject in subjects},
                   "smallest_limit_bytes", live_bytes, recorded_bytes)
    return [trace["file"] + replay_rows.lag_text(rows[0]), f"{live_bytes / GIB:.2f}",
            "–" if recorded_bytes is None
            else ratio_text(recorded_bytes / live_bytes),
            *(limits.live_text(subject) for subject in subjects)]


def limit_lines(options, paths):
    """Only of who was asked for it."""
    rows = replay_rows.read(paths, "serial")
    asked = [row for row in rows if row.get("smallest_limit_bytes") is not None]
    if not asked:
        raise BadInput(f"no row of {', '.join(paths)} has a smallest limit")
    index = index_of(options.get("traces"))
    subjects = in_order(row["subject"] for row in asked)
    yield circumstances.line(replay_rows.found_of(asked), options)
    yield ""
    yield from table(
        ["trace", "live, GiB", "recorded ÷ live",
         *(f"{subject} ÷ live" for subject in subjects)], 2 + len(subjects),
        (limit_texts(group, subjects, index)
         for group in replay_rows.by_trace(asked).values()))
    yield from replay_rows.refusal_lines(rows)
