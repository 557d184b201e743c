# SPDX-License-Identifier: Apache-2.0
"""Rows of a replay, as docs/replay.md has them, by what they compare.

A comparison is one trace, replayed in one way, on several subjects. Rows that
agree in all of that are repeats: the median stands for them, with the smallest
and the largest beside it.
"""

import statistics

from binade import _report_words as words
from binade._report_read import number

# How a field is called, and where it is in a row.
FIELDS = {
    "mean_ns": ("latency_ns", "all", "mean"),
    "median_ns": ("latency_ns", "all", "median"),
    "p99_ns": ("latency_ns", "all", "p99"),
    "max_ns": ("latency_ns", "all", "max"),
    "peak_live_bytes": ("peak_live_bytes",),
    "peak_reserved_bytes": ("peak_reserved_bytes",),
    "waste_internal_bytes": ("waste_internal_bytes",),
    "waste_external_bytes": ("waste_external_bytes",),
    "smallest_limit_bytes": ("smallest_limit_bytes",),
    "driver_calls": ("driver_calls",),
    "ooms": ("ooms",),
    "releases": ("releases",),
}
# Of a row that says nothing of how far the device lagged.
IDLE = "idle"


def summary(values):
    """Median, least, greatest and count of what is known; None for nothing."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"median": statistics.median(known), "min": min(known),
            "max": max(known), "count": len(known)}


class Subject:
    """A subject in one comparison, by all of its repeats."""

    def __init__(self, name):
        self.name = name
        self.rows = []
        self.refused = None
        self.values = dict.fromkeys(FIELDS)
        self.values["footprint"] = None

    def finish(self):
        ran = [(where, row) for where, row in self.rows
               if row.get("refused") is None]
        if not ran:
            self.refused = str(self.rows[0][1]["refused"])
            return
        self.rows = [row for _, row in ran]
        for name, path in FIELDS.items():
            self.values[name] = summary(
                [number(where, row, path) for where, row in ran])
        self.values["footprint"] = summary(map(footprint, self.rows))

    def median(self, name):
        found = self.values[name]
        return found and found["median"]

    @property
    def has_failed(self):
        return self.refused is None and bool(
            self.values["ooms"] and self.values["ooms"]["max"])

    def first(self, name):
        """Of the first repeat that has it: what cannot have a median."""
        return next((row[name] for row in self.rows
                     if self.refused is None
                     and isinstance(row.get(name), dict)), None)

    def histogram(self):
        """[ns, count] of all repeats together, by ns."""
        counts = {}
        for row in self.rows if self.refused is None else ():
            for ns, count in (row.get("latency_ns") or {}).get(
                    "histogram") or ():
                counts[ns] = counts.get(ns, 0) + count
        return sorted(counts.items())


def footprint(row):
    """Peak reserved by peak live, or None."""
    reserved = row.get("peak_reserved_bytes")
    live = row.get("peak_live_bytes")
    return reserved / live if live and reserved is not None else None


class Comparison:
    def __init__(self, key, row):
        (self.trace, self.mode, self.lag, self.threads,
         self.limit_bytes) = key
        self.about = row["trace"]
        self.subjects = {}

    @property
    def ran(self):
        return [one for one in self.subjects.values() if one.refused is None]

    @property
    def refused(self):
        return [one for one in self.subjects.values()
                if one.refused is not None]

    def ranked(self, name):
        """(value, subject) of those that served all of it, least first."""
        found = [(one.median(name), one) for one in self.ran
                 if not one.has_failed and one.median(name) is not None]
        return sorted(found, key=lambda pair: pair[0])

    def title(self):
        said = [f"{self.trace}, {self.mode}"]
        if self.threads is not None:
            said.append(words.counted(self.threads, "thread"))
        if self.limit_bytes:
            said.append(f"limit {words.as_bytes(self.limit_bytes)}")
        if self.lag != IDLE:
            said.append(f"device {self.lag}")
        return ", ".join(said)


def compare(rows):
    """The comparisons of (where, row), in the order in which they come."""
    found = {}
    for where, row in rows:
        key = (row["trace"]["file"], row["mode"], row.get("lag", IDLE),
               *(number(where, row, (name,))
                 for name in ("threads", "limit_bytes")))
        if key not in found:
            found[key] = Comparison(key, row)
        subjects = found[key].subjects
        subject = subjects.setdefault(row["subject"], Subject(row["subject"]))
        subject.rows.append((where, row))
    for comparison in found.values():
        for subject in comparison.subjects.values():
            subject.finish()
    return list(found.values())
