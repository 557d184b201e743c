# SPDX-License-Identifier: Apache-2.0
"""Whether the rows of //bench:host on the stand-in are all there and right.

    check_host.py PROCESSES START_MIB PEERS < ROWS

PEERS is "peers" where a script for them was run without their packages. How
long anything took is not judged.
"""

import json
import sys

GIB = 1 << 30
MIB = 1 << 20
SIZES = (64 << 10, 1 << 20, 16 << 20)
STAGING = ("arena_done", "arena_stream", "arena_copy", "driver", "register",
           "clock")
STAGES = ("map_ns", "bind_ns", "stage_touch_ns", "register_ns", "read_back_ns")


def is_ordered(row, key):
    return 0 < row[f"{key}_least"] <= row[f"{key}_median"] <= row[f"{key}_most"]


def staging(row):
    if row["subject"] in ("torch", "cupy"):
        return "is not installed" in row["skipped"]
    return is_ordered(row, "ns") and row["batches"] >= 5 and \
        row["pairs"] % row["batches"] == 0


def start(row):
    if row["skipped"] is not None:
        return row["subject"] == "arena_2mib_pages" and \
            "free pages of 2 MiB" in row["skipped"]
    if not all(f"{who}_{call}_ns" in row for who in ("others", "process")
               for call in ("wait", "launch", "copy", "alloc")):
        return False
    if row["subject"] == "nobody":
        return True
    if row["subject"] == "driver":
        return row["ns"] > 0 and row["touch_ns"] > 0
    kinds = sum(row[key] for key in
                ("small_bytes", "transparent_bytes", "huge_2mib_bytes",
                 "huge_1gib_bytes", "driver_bytes"))
    return (row["pinned_bytes"] >= row["size_bytes"] and
            kinds == row["pinned_bytes"] and
            row["pages_near"] + row["pages_elsewhere"] <= row["pages_asked"] and
            0 < sum(row[key] for key in STAGES) <= row["ns"] and
            (row["threads"] == 1 or row["subject"] != "arena_1_thread") and
            row["report"].startswith("node"))


def bandwidth(row):
    if row["subject"] == "arena_other_node":
        return row["skipped"] is not None or is_ordered(row, "gb_s")
    return is_ordered(row, "gb_s") and is_ordered(row, "ratio") and \
        row["turns"] >= 5


def pipeline(row):
    return row["gb_s"] > 0 and row["percent_of_bare"] > 0 and \
        row["blocks"] >= row["workers"] == 2


def waste(row):
    if row["subject"] == "counted":
        exact = (row["scale"] == 1 and
                 row["reserved_bytes"] < 1.001 * row["wanted_bytes"])
        if row["of"] == "10.1 GiB":
            exact = exact and row["wanted_bytes"] >= 10.1 * GIB - 1 and \
                row["reserved_bytes"] <= 10.11 * GIB
        return exact and row["reserved_bytes"] < row["power_of_two_bytes"]
    return row["wanted_bytes"] <= row["reserved_bytes"]


# Without streams, and the same on each machine.
def pieces(row):
    ratio = row["most_reserved_bytes"] / row["most_live_bytes"]
    is_default = row["piece_mib"] == 64 and not row["subject"].startswith("1 to")
    return row["most_live_bytes"] >= 3.5 * GIB and \
        1 <= ratio < (1.1 if is_default else 2.2)


def run(row):
    return row["is_standin"] and row["place"].startswith("node") and \
        row["commit"] == "of a test"


RULES = {"run": run, "waste": waste, "pieces": pieces, "staging": staging, "start": start,
         "bandwidth": bandwidth, "pipeline": pipeline}


def wanted(processes, start_mib, has_peers):
    """What must be there once: what, subject, process and what tells apart."""
    yield "run", None, 0, None
    for of in ("vllm#53042", "vllm#50094", "10.1 GiB", "cupy#7742",
               "all of these at once"):
        yield "waste", "counted", 0, of
    for process in range(processes):
        for size in SIZES:
            yield from (("staging", s, process, size) for s in STAGING)
        if has_peers:
            yield "staging", "python_clock", process, SIZES[0]
            for size in SIZES:
                yield from (("staging", s, process, size)
                            for s in ("torch", "cupy"))
        for mib in start_mib:
            yield from (("start", s, process, mib * MIB)
                        for s in ("arena", "arena_1_thread",
                                  "arena_2mib_pages", "driver", "nobody"))
        for direction in ("h2d", "d2h"):
            yield from (("bandwidth", s, process, direction)
                        for s in ("arena", "driver"))
        for fill in (True, False):
            yield from (("pipeline", s, process, fill)
                        for s in ("arena", "arena_paced", "driver_ring"))


def identity(row):
    key = {"waste": "of", "staging": "size_bytes", "start": "size_bytes",
           "bandwidth": "direction", "pipeline": "fill"}.get(row["what"])
    return row["what"], row["subject"], row["process"], row.get(key)


def is_right(row):
    """A number that is missing is wrong, however good the reason."""
    try:
        return row["error"] is None and RULES[row["what"]](row)
    except (KeyError, TypeError):
        return False


def complaints(rows, must):
    found = [identity(row) for row in rows]
    for name in must:
        if found.count(name) != 1:
            yield f"{name}: there {found.count(name)} times"
    if sum(row["what"] == "waste" and row["subject"] == "arena"
           for row in rows) < 3:
        yield "too few requests to a real arena"
    for row in rows:
        if not is_right(row):
            yield str(row)


def main(processes, start_mib, peers):
    rows = [json.loads(line) for line in sys.stdin]
    wrong = list(complaints(rows, wanted(
        int(processes), list(map(int, start_mib.split(","))),
        peers == "peers")))
    for what in wrong:
        print(f"FAILED: {what}")
    print(f"{len(rows)} rows, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
