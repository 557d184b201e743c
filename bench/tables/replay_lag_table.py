# SPDX-License-Identifier: Apache-2.0
"""What subjects reserved on each trace, by how far the device lagged behind;
and how that compares with the reference, over all traces."""

import statistics

import circumstances
import replay_rows
from replay_rows import REFERENCE
from table_text import in_order, number_text, spread_text, table


def cell(rows):
    """Most reserved by most live, and what failed."""
    ratios = [row["peak_reserved_bytes"] / row["peak_live_bytes"]
              for row in rows if row.get("peak_reserved_bytes") is not None
              and row["peak_live_bytes"]]
    if not ratios:
        return "–"
    failed = max(row["ooms"] for row in rows)
    return spread_text(ratios, lambda ratio: f"{ratio:.2f}") + (
        f", {number_text(failed)} failed" if failed else "")


def reserved(rows):
    numbers = replay_rows.numbers(rows, "peak_reserved_bytes")
    return statistics.median(numbers) if numbers else None


class Cells:
    """Rows by trace, subject and lag."""

    def __init__(self, rows):
        self._rows = replay_rows.grouped(rows, lambda row: (
            row["trace"]["file"], replay_rows.subject_name(row),
            replay_rows.lag_of(row)))
        self.traces, self.subjects, self.lags = (
            in_order(key[part] for key in self._rows) for part in range(3))

    def rows(self, *key):
        return self._rows.get(key, [])

    def ratios(self, subject, lag):
        """What it reserved by what the reference did, on each trace that
        both were replayed on."""
        pairs = [(reserved(self.rows(trace, subject, lag)),
                  reserved(self.rows(trace, REFERENCE, lag)))
                 for trace in self.traces]
        return [ours / theirs for ours, theirs in pairs if ours and theirs]

    def texts(self, trace, subject):
        return [trace.removesuffix(".mtrace"), subject,
                *(cell(self.rows(trace, subject, lag)) for lag in self.lags)]

    def summary(self, pick, name, subject):
        ratios = [self.ratios(subject, lag) for lag in self.lags]
        return [f"{name} over {len(self.traces)}", f"{subject} ÷ {REFERENCE}",
                *(f"{pick(found):.2f}" if found else "–" for found in ratios)]


def lag_lines(options, paths):
    rows = replay_rows.read(paths, "serial")
    measured = [row for row in rows if not replay_rows.is_refused(row)]
    cells = Cells(measured)
    yield circumstances.line(replay_rows.found_of(rows), options)
    yield from ["", "Most reserved ÷ most live, by the device's lag", ""]
    yield from table(["trace", "subject", *cells.lags], len(cells.lags),
                     (cells.texts(trace, subject) for trace in cells.traces
                      for subject in cells.subjects
                      if any(cells.rows(trace, subject, lag)
                             for lag in cells.lags)))
    others = [subject for subject in cells.subjects if subject != REFERENCE]
    if REFERENCE in cells.subjects and others and len(cells.traces) > 1:
        yield ""
        yield from table(["traces", "subject", *cells.lags], len(cells.lags),
                         (cells.summary(pick, name, subject)
                          for subject in others
                          for pick, name in ((statistics.mean, "mean"),
                                             (max, "worst"))))
    yield from replay_rows.refusal_lines(rows)
