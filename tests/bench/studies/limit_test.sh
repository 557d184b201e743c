#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Pairs under limits: what is printed, and what is refused. Not what they take.
set -u
. tests/gates/expect.sh

limit=bench/studies/limit
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF

# $1: Python that asserts something of `rows`; more: arguments.
rows_are() {
    local checks=$1
    shift
    "$limit" --driver=standin --threads=2 --pairs=200 "$@" | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
for row in rows:
    assert row["kind"] == "limit" and row["is_standin"] and row["commit"]
    assert row["mean_ns"] > 0 and row["failed"] >= 0
exec(sys.argv[1])' "$checks"
}

expect_ok "limits" rows_are '
assert [row["factor"] for row in rows] == [0, 5.5, 2.7, 1.9, 1.56]
assert rows[0]["limit_bytes"] == rows[0]["failed"] == 0
for row in rows:
    live = row["mean_live_bytes"]
    assert 128 * 150000 < live <= row["peak_live_bytes"]
    limit = row["factor"] * live
    assert limit - (2 << 20) <= row["limit_bytes"] <= limit
    assert row["limit_bytes"] % (2 << 20) == 0
    assert row["slowest_ns"] >= row["mean_ns"]
    assert (row["threads"], row["pairs"], row["lag"]) == (2, 200, "idle")
' --subject=moiety --part=limits
expect_ok "a limit below what is live" rows_are '
assert [row["factor"] for row in rows] == [0, 1.01]
assert rows[1]["failed"] > 0 == rows[0]["failed"]
' --subject=best-fit --part=limits --factors=1.01
expect_ok "a new pool" rows_are '
assert rows[0]["threads"] == 1 and rows[0]["first_ns"] > 0
' --subject=moiety --part=first
expect_ok "32 MiB" rows_are '
assert [row["threads"] for row in rows] == [1, 2]
assert {row["size_bytes"] for row in rows} == {32 << 20}
' --subject=moiety --part=pair
expect_ok "all parts, subjects and repeats" rows_are '
assert [(row["subject"], row["part"], row["repeat"]) for row in rows] == [
    (subject, part, repeat) for subject in ("moiety", "best-fit")
    for repeat in (0, 1)
    for part in ("limits", "limits", "first", "pair", "pair")]
' --subject=moiety,best-fit --factors=3 --repeats=2
expect_ok "lags" rows_are '
assert [(row["lag"], row["factor"]) for row in rows] == [
    (lag, factor) for lag in ("idle", "work:1", "held") for factor in (0, 3)]
assert ["releases" in row for row in rows] == [False] * 4 + [True] * 2
' --subject=best-fit --part=limits --factors=3 --lag=idle,work:1,held

expect_refusal "no limit" '"refused":"it cannot be limited"' \
    env MOIETY_STANDIN_MEMORY_POOLS=1 "$limit" --driver=standin --threads=1 \
    --pairs=10 --subject=cuda-async --part=limits
expect_refusal "no driver" /no/such.so "$limit" --driver=/no/such.so \
    --subject=moiety

# $1: an argument that is refused; $2: words.
refuses() {
    expect_refusal "$1" "$2" "$limit" "$1"
    "$limit" "$1" >/dev/null 2>&1
    expect_text "$1: exit status" 2 $?
}
refuses --part=most "limits, first, pair"
refuses --part=pair,pair "each once at most"
refuses --part= "limits, first, pair"
refuses --threads=0 "1 to 256"
refuses --threads=257 "1 to 256"
refuses --pairs=0 "1 to 10000000"
refuses --factors=1 "numbers above 1"
refuses --factors=nan "numbers above 1"
refuses --factors=2x "numbers above 1"
refuses --factors=2, "numbers above 1"
refuses --factors=1e9 "up to 1000"
refuses --repeats=101 "1 to 100"
refuses --lag=busy "idle, held, or one or more of work:1"
refuses --lag= "idle, held, or"
refuses --fast "--help says what is"
expect_ok "help" "$limit" --help
finish
