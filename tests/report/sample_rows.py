# SPDX-License-Identifier: Apache-2.0
"""Rows of a replay as the tests of the report need them. They look like
measurements and are none: nothing was run."""

import random

GIB = 1 << 30
MIB = 1 << 20
# What a subject reserves by what is live, the ns of its median, driver calls.
SUBJECTS = {
    "moiety": (1.04, 62, 410),
    "best-fit": (1.09, 340, 388),
    "naive": (1.46, 510, 12),
    "cuMemAlloc": (1.01, 48000, 200000),
}


def latency(rng, median):
    histogram, total = [], 100000
    for step in range(40):
        ns = int(median * 1.25 ** (step - 8))
        histogram.append([ns, int(total * 0.12 * 0.82 ** abs(step - 8))])
    one = {"count": total, "mean": median * 1.2, "median": median,
           "p99": median * rng.uniform(6, 14), "max": median * 4000}
    return {"alloc": one, "free": one, "all": one, "histogram": histogram}


def timeline(rng, ratio, peak, points):
    live = [int(peak * (0.3 + 0.7 * ((at % 97) / 96))
                * min(1, 0.1 + at * 4 / points)) for at in range(points)]
    reserved = []
    for value in live:
        reserved.append(max([int(value * ratio)] + reserved[-1:]))
    return {"op": [at * 500 for at in range(points)],
            "time_ns": [at * 60000 for at in range(points)],
            "live": live, "handed": [int(value * 1.02) for value in live],
            "cached": [int((a - b) * 0.6) for a, b in zip(reserved, live)],
            "retiring": [rng.randrange(8 * MIB) for _ in live],
            "reserved": reserved}


def address_map(rng, blocks):
    segments, found, address = [], [], 0x7F0000000000
    for _ in range(12):
        segments.append([address, 160 * MIB])
        at = address
        while at < address + 150 * MIB and len(found) < blocks:
            size = rng.choice((1, 1, 2, 4, 8)) * 12 * 160 * MIB // 4 // blocks
            if rng.random() < 0.93:
                found.append([at, size])
            at += size
        address += 256 * MIB
    return {"op": 40000, "segments": segments, "blocks": found}


def row(subject="moiety", trace="serving.mtrace", mode="serial", threads=1,
        seed=0, points=400, blocks=3000):
    rng = random.Random(f"{subject}{trace}{mode}{threads}{seed}")
    ratio, median, calls = SUBJECTS.get(subject, (1.2, 100, 50))
    median *= rng.uniform(0.95, 1.05) * threads ** 0.3
    peak = int(1.7 * GIB)
    is_serial = mode == "serial"
    return {
        "kind": "replay",
        "trace": {"file": trace, "operations": 200000, "threads": 8,
                  "streams": 4, "peak_live_bytes": peak,
                  "recorded_peak_reserved_bytes": int(peak * 1.15),
                  "info": {"source": "sample"}},
        "subject": subject, "mode": mode, "threads": threads,
        "limit_bytes": 0,
        "machine": {"cpu": "sample processor", "processors": 2},
        "driver": "stand-in 1", "is_standin": True, "is_simulated": False,
        "commit": "0123456789ab", "date": "2026-01-02",
        "latency_ns": latency(rng, median), "wall_ns": 12345678, "ooms": 0,
        "peak_live_bytes": peak if is_serial else None,
        "peak_reserved_bytes": int(peak * ratio) if is_serial else None,
        "waste_internal_bytes": int(peak * 0.02) if is_serial else None,
        "waste_external_bytes":
            int(peak * (ratio - 1)) if is_serial else None,
        "driver_calls": calls,
        "smallest_limit_bytes":
            int(peak * ratio * 0.97) if is_serial else None,
        "timeline": timeline(rng, ratio, peak, points) if is_serial else None,
        "map": address_map(rng, blocks) if is_serial else None,
    }


def refused(subject="cudaMallocAsync", why="there is no GPU here", **options):
    made = row(subject, **options)
    for name in ("latency_ns", "wall_ns", "ooms", "peak_live_bytes",
                 "peak_reserved_bytes", "waste_internal_bytes",
                 "waste_external_bytes", "driver_calls",
                 "smallest_limit_bytes", "timeline", "map"):
        del made[name]
    return {**made, "refused": why}


def rows():
    """A report as it would be: two comparisons, three repeats, a refusal."""
    made = [row(subject, seed=seed) for subject in SUBJECTS
            for seed in range(3)]
    made += [row(subject, mode="concurrent", threads=8, seed=seed)
             for subject in SUBJECTS for seed in range(3)]
    naive = next(one for one in made if one["subject"] == "naive")
    naive["timeline"]["retiring"] = [None] * len(naive["timeline"]["op"])
    return [*made, refused()]
