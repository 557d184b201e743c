# SPDX-License-Identifier: Apache-2.0
"""Rows of a replay, from a file or as objects, each with where it is from.
What the report draws is checked here, so that nothing after has to."""

import json
import os

SERIES = ("time_ns", "live", "handed", "cached", "retiring", "reserved")
LATENCIES = ("alloc", "free", "all")
TOO_MUCH = 2 ** 64


class RowError(ValueError):
    """A row that is not what docs/replay.md says."""

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

    `source` is a path, a file, or whatever gives lines or rows.
    """
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            return read(file)
    found, others = [], 0
    for where, row in objects(source):
        if not isinstance(row, dict) or not isinstance(row.get("kind"), str):
            raise RowError(where, "no object with a kind")
        if row["kind"] != "replay":
            others += 1
            continue
        check(where, row)
        found.append((where, row))
    if not found:
        raise ValueError("there is no row of a replay to report")
    return found, others
