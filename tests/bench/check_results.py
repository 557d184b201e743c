# SPDX-License-Identifier: Apache-2.0
"""Checks a file of results, line by line.

    check_results.py FILE REPEATS WORKLOAD... -- SUBJECT...

Every line must be an object with all keys and numbers that can be true, of at
least REPEATS processes, none of which failed; no measurement may be there twice; each WORKLOAD must
have been measured on some SUBJECT and the other way round, and nothing else.
"""

import json
import sys

NUMBERS = ("ns_per_op_median", "ns_per_op_mean", "ns_per_op_median_min",
           "ns_per_op_median_max", "ns_per_op_p99", "ns_per_op_p999", "ops",
           "threads", "size_bytes", "repeats", "cell_us", "seed", "processors")
# A call may take less time than the clock can tell.
COUNTS = ("preempted_repetitions_discarded", "ns_per_call_p99",
          "ns_per_call_p999", "streams")
FLAGS = ("clean", "pinned", "is_standin", "simulated_costs", "host_memory")
TEXTS = ("workload", "subject", "driver", "cpu", "commit", "lag")
RATES = ("cache_hit_rate",)
ORDERS = (("ns_per_op_median", "ns_per_op_p99", "ns_per_op_p999"),
          ("ns_per_call_p99", "ns_per_call_p999"),
          ("ns_per_op_median_min", "ns_per_op_median", "ns_per_op_median_max"))


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def complaints(result, repeats):
    keys = {*NUMBERS, *COUNTS, *FLAGS, *TEXTS, *RATES, "failure"}
    if set(result) != keys:
        yield f"keys that differ: {sorted(set(result) ^ keys)}"
        return
    if result["failure"] is not None:
        yield f"not measured: {result['failure']}"
        return
    for key in NUMBERS:
        if not (is_number(result[key]) and result[key] > 0):
            yield f"{key} is {result[key]!r}"
    for key in COUNTS:
        if not (is_number(result[key]) and result[key] >= 0):
            yield f"{key} is {result[key]!r}"
    for key in FLAGS:
        if not isinstance(result[key], bool):
            yield f"{key} is {result[key]!r}"
    for key in TEXTS:
        if not (isinstance(result[key], str) and result[key]):
            yield f"{key} is {result[key]!r}"
    has_cache = result["subject"].startswith("moiety")
    for key in RATES:
        rate = result[key]
        if (rate is not None) != has_cache:
            yield f"{key} is {rate!r}"
        elif has_cache and not (is_number(rate) and 0 <= rate <= 1):
            yield f"{key} is {rate!r}"
    for order in ORDERS:
        values = [result[key] for key in order]
        if values != sorted(values):
            yield f"{', '.join(order)} are not in order: {values}"
    if result["repeats"] < repeats:
        yield f"{result['repeats']} repeats, not {repeats}"
    has_driver = result["subject"].startswith(("cuda_", "moiety"))
    if result["is_standin"] != has_driver:
        yield "is_standin is wrong"


def main(arguments):
    path, repeats, *names = arguments
    at = names.index("--")
    expected = {"workload": set(names[:at]), "subject": set(names[at + 1:])}
    found = {"workload": set(), "subject": set()}
    seen = set()
    failures = 0
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            result = json.loads(line)
            cell = tuple(result.get(key) for key in (
                "workload", "subject", "threads", "size_bytes"))
            wrong = list(complaints(result, int(repeats)))
            if cell in seen:
                wrong.append("measured twice")
            seen.add(cell)
            for kind, names_found in found.items():
                names_found.add(result.get(kind))
            for what in wrong:
                print(f"FAILED: {path}:{number}: {cell}: {what}")
            failures += len(wrong)
    for kind, names_found in found.items():
        if names_found != expected[kind]:
            print(f"FAILED: {path}: {kind}s that differ: "
                  f"{sorted(names_found ^ expected[kind])}")
            failures += 1
    print(f"{path}: {len(seen)} measurements, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
