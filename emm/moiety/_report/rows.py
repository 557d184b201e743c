# SPDX-License-Identifier: Apache-2.0
"""Rows of a replay, as docs/dev/replay.md has them, read from a file or as objects,
and by what they compare. What the report draws is checked while it is read, so
that nothing after has to.

A comparison is one trace, replayed in one way, on several subjects. Rows that
agree in all of that are repeats: the median stands for them, with the smallest
and the largest beside it.
"""

import json
import os
import statistics

from moiety._report import words

SERIES = ("time_ns", "live", "handed", "cached", "retiring", "reserved")
LATENCIES = ("alloc", "free", "all")
TOO_MUCH = 2 ** 64
# A row that says what those behind it are, up to the next one.
HEADING = "heading"


class RowError(ValueError):
    """A row that is not what docs/dev/replay.md says."""

    def __init__(self, where, message):
        super().__init__(f"{where}: {message}")


def is_number(value):
    """From 0 on; NaN and infinity are none."""
    return (isinstance(value, (int, float)) and not isinstance(value, bool)
            and 0 <= value < TOO_MUCH)


def shown(value):
    """Short enough for a message."""
    made = repr(value)
    return made if len(made) <= 40 else made[:37] + "..."


def number(where, row, path):
    """The number at `path`, or None for what is not known."""
    found = row
    for name in path:
        if found is None:
            return None
        if not isinstance(found, dict):
            raise RowError(where, f"{'.'.join(path)}: {shown(found)} is no "
                                  "object")
        found = found.get(name)
    if found is not None and not is_number(found):
        raise RowError(where, f"{'.'.join(path)}: {shown(found)} is no number "
                              "from 0 on")
    return found


def part(where, row, name):
    """The object of that name, or an empty one for what is not known."""
    found = row.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise RowError(where, f"{name}: {shown(found)} is no object")
    return found


def check_pairs(where, title, pairs):
    for pair in pairs if isinstance(pairs, list) else (pairs,):
        if not (isinstance(pair, list) and len(pair) == 2
                and all(map(is_number, pair))):
            raise RowError(where, f"{title}: {shown(pair)} is no pair of "
                                  "numbers from 0 on")


def check_timeline(where, timeline):
    ops = timeline.get("op")
    if not isinstance(ops, list) or not all(map(is_number, ops)):
        raise RowError(where, "timeline.op is no list of numbers from 0 on")
    for name in SERIES:
        found = timeline.get(name)
        if found is None:
            continue
        if not isinstance(found, list) or len(found) != len(ops):
            raise RowError(where, f"timeline.{name} is no list as long as "
                                  "timeline.op")
        wrong = [one for one in found if one is not None
                 and not is_number(one)]
        if wrong:
            raise RowError(where, f"timeline.{name}: {shown(wrong[0])} is no "
                                  "number from 0 on")


def check_latency(where, latency):
    for name in LATENCIES:
        part(where, latency, name)
    if latency.get("histogram") is not None:
        check_pairs(where, "latency_ns.histogram", latency["histogram"])


def check(where, row):
    trace = part(where, row, "trace")
    for title, value in (("trace.file", trace.get("file")),
                         ("subject", row.get("subject")),
                         ("mode", row.get("mode")),
                         ("lag", row.get("lag", ""))):
        if not isinstance(value, str):
            raise RowError(where, f"{title} is no text")
    for name in ("operations", "threads", "streams", "peak_live_bytes",
                 "recorded_peak_reserved_bytes"):
        number(where, row, ("trace", name))
    check_latency(where, part(where, row, "latency_ns"))
    if row.get("timeline") is not None:
        check_timeline(where, part(where, row, "timeline"))
    for name, pairs in part(where, row, "map").items():
        if name in ("segments", "blocks") and pairs is not None:
            check_pairs(where, f"map.{name}", pairs)


def check_heading(where, row):
    for name in ("title", "says"):
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise RowError(where, f"{name} is no text")


def replays(found):
    """Those of (where, row) that were measured."""
    return [one for one in found if one[1].get("kind") != HEADING]


def no_constant(name):
    raise ValueError(f"{name} is no JSON")


def parse(where, line):
    try:
        return json.loads(line, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise RowError(where, f"no JSON: {error}") from None


def objects(lines):
    """(where, object) of each line that is not blank."""
    for count, one in enumerate(lines, 1):
        if not isinstance(one, (str, bytes)):
            yield f"row {count}", one
        elif one.strip():
            yield f"line {count}", parse(f"line {count}", one)


def read(source):
    """([(where, row)], number of rows of other kinds, which are left out).
    Headings are among the rows.

    `source` is a path, a file, or whatever gives lines or rows.
    """
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            return read(file)
    found, others = [], 0
    for where, row in objects(source):
        if not isinstance(row, dict) or not isinstance(row.get("kind"), str):
            raise RowError(where, "no object with a kind")
        if row["kind"] == HEADING:
            check_heading(where, row)
        elif row["kind"] == "replay":
            check(where, row)
        else:
            others += 1
            continue
        found.append((where, row))
    if not replays(found):
        raise ValueError("there is no row of a replay to report")
    return found, others


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
    def __init__(self, key, row, about):
        """`about` is the heading's row, or None."""
        self.said = about
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

    def heading(self):
        return self.said["title"] if self.said else self.title()

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
    found, about, place = {}, None, None
    for where, row in rows:
        if row.get("kind") == HEADING:
            about, place = row, where
            continue
        key = (row["trace"]["file"], row["mode"], row.get("lag", IDLE),
               *(number(where, row, (name,))
                 for name in ("threads", "limit_bytes")))
        one = found.setdefault((place, key), Comparison(key, row, about))
        one.subjects.setdefault(
            row["subject"], Subject(row["subject"])).rows.append((where, row))
    for comparison in found.values():
        for subject in comparison.subjects.values():
            subject.finish()
    return list(found.values())
