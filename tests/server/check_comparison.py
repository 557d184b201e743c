# SPDX-License-Identifier: Apache-2.0
"""Checks what the server wrote of a comparison.

    check_comparison.py FILE THREADS REQUESTS SUBJECT...

A line for each SUBJECT, in this order, with all keys and numbers that can be
true; each served REQUESTS requests (0: at least one), all alike: the same
requests need the same allocations.
"""

import json
import resource
import sys

# Bytes of a sample; a response has one for each tensor and two more, and a
# request an allocation for each tensor and two more.
SAMPLE_BYTES = 2048
PAGE_BYTES = resource.getpagesize()

POSITIVE = ("threads", "requests", "allocs", "frees", "checked_bytes",
            "seconds", "requests_per_second", "latency_ms_p50",
            "latency_ms_p99", "peak_bytes", "staging_bytes", "staging_pages",
            "staging_pages_near")
COUNTS = ("seed", "handed_over", "wrong_bytes", "lost_bytes",
          "alloc_ns_p50", "alloc_ns_p99", "free_ns_p50", "free_ns_p99",
          "pair_ns_mean", "alloc_time_share", "staging_lost_bytes",
          "staging_pages_elsewhere")
ORDERS = (("latency_ms_p50", "latency_ms_p99"),
          ("alloc_ns_p50", "alloc_ns_p99"),
          ("free_ns_p50", "free_ns_p99"))
TEXTS = ("subject", "device", "driver", "staging_place", "staging_page_kind")
FLAGS = ("is_standin", "simulated_costs")


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def complaints(result, threads, requests):
    keys = {*POSITIVE, *COUNTS, *TEXTS, *FLAGS}
    if set(result) != keys:
        yield f"keys that differ: {sorted(set(result) ^ keys)}"
        return
    for key in POSITIVE:
        if not (is_number(result[key]) and result[key] > 0):
            yield f"{key} is {result[key]!r}"
    for key in COUNTS:
        if not (is_number(result[key]) and result[key] >= 0):
            yield f"{key} is {result[key]!r}"
    for key in TEXTS:
        if not (isinstance(result[key], str) and result[key]):
            yield f"{key} is {result[key]!r}"
    for key in FLAGS:
        if result[key] is not True:
            yield f"{key} is {result[key]!r}"
    for key in ("wrong_bytes", "lost_bytes", "staging_lost_bytes"):
        if result[key]:
            yield f"{key} is {result[key]}"
    if result["staging_pages_near"] + result["staging_pages_elsewhere"] != \
            result["staging_pages"]:
        yield "of some pages of the staging it is not known where they are"
    if result["staging_pages"] * PAGE_BYTES != result["staging_bytes"]:
        yield "staging_bytes and staging_pages differ"
    if result["allocs"] != result["frees"]:
        yield f"{result['allocs']} allocations, {result['frees']} frees"
    if result["checked_bytes"] != result["allocs"] * SAMPLE_BYTES:
        yield "not every tensor was checked"
    for low, high in ORDERS:
        if result[low] > result[high]:
            yield f"{low} and {high} are not in order"
    if result["alloc_time_share"] > 1:
        yield "more time in allocations than in all"
    if result["threads"] != threads:
        yield f"{result['threads']} threads"
    if requests and result["requests"] != requests:
        yield f"{result['requests']} requests"
    if (result["handed_over"] > 0) != (threads > 1):
        yield f"{result['handed_over']} blocks were handed over"


def staging(result):
    return tuple(result.get(key) for key in sorted(result)
                 if key.startswith("staging_"))


def main(arguments):
    path, threads, requests, *subjects = arguments
    with open(path, encoding="utf-8") as file:
        results = [json.loads(line) for line in file]
    wrong = []
    for result in results:
        wrong += [f"{result.get('subject')}: {what}" for what in
                  complaints(result, int(threads), int(requests))]
    if [result.get("subject") for result in results] != subjects:
        wrong.append("other subjects, or in another order")
    if int(requests) and len({result["allocs"] for result in results}) != 1:
        wrong.append("the subjects did not serve the same requests")
    if len({staging(result) for result in results}) != 1:
        wrong.append("the subjects did not share their staging")
    for what in wrong:
        print(f"FAILED: {path}: {what}")
    print(f"{len(results)} subjects, {len(wrong)} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
