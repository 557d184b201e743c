#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Threads that rest with many streams: what is printed, and what is refused.
# Not what they cost.
set -u
. tests/gates/expect.sh

crowd=bench/studies/crowd
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF

# $1: Python that asserts something of `rows`; more: arguments.
rows_are() {
    local checks=$1
    shift
    "$crowd" --driver=standin --work=2000 "$@" | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
for row in rows:
    assert row["kind"] == "crowd" and row["is_standin"] and row["commit"]
    assert row["failed"] == 0 < row["end_ns"]
    for when in ("before", "beside", "after"):
        assert row[when + "_ns"] > 0 and 0 <= row[when + "_hits"] <= 1
    resting = row["cached_bytes"] + row["retiring_bytes"]
    assert resting <= row["reserved_bytes"]
exec(sys.argv[1])' "$checks"
}

expect_ok "64 threads with 8 streams" rows_are '
(row,) = rows
assert (row["threads"], row["streams"], row["pairs"]) == (64, 8, 1)
assert (row["size_bytes"], row["cache_bytes"]) == (65536, 0)
assert row["pool_threads"] >= 64
assert row["cached_bytes"] > 0
assert row["host_bytes"] > 0
assert abs(row["host_bytes_each"] - row["host_bytes"] / 512) < 1
assert min(row["before_hits"], row["after_hits"]) > 0
' --threads=64
expect_ok "a bound" rows_are '
(row,) = rows
assert row["cache_bound_bytes"] == row["cache_bytes"] == 8 << 20
# An eighth of it lies beside that, for each stream.
assert row["cached_bytes"] <= 2 * row["cache_bound_bytes"]
' --threads=64 --cache=8388608
expect_ok "a bound besides what the user says" env MOIETY_CONF=wait_ms:5 \
    "$crowd" --driver=standin --threads=1 --work=10 --cache=99999999
expect_ok "repeats and subjects" rows_are '
assert [(row["subject"], row["repeat"]) for row in rows] == [
    (subject, repeat)
    for subject in ("moiety", "moiety-nocache", "moiety-mapped")
    for repeat in (0, 1)]
assert [row["host_bytes"] is None for row in rows] == [False] + [True] * 5
for row in rows:
    assert (row["threads"], row["streams"], row["pairs"]) == (3, 2, 20)
    if row["subject"] == "moiety-nocache":
        assert row["cached_bytes"] == row["beside_hits"] == 0
' --threads=3 --streams=2 --pairs=20 --size=4096 --repeats=2 \
    --subject=moiety,moiety-nocache,moiety-mapped
expect_ok "a bound on caches over mapped memory" rows_are '
(row,) = rows
assert row["cache_bound_bytes"] == row["cache_bytes"] == 8 << 20
' --threads=8 --cache=8388608 --subject=moiety-mapped

expect_ok "a device that lags" rows_are '
assert [row["lag"] for row in rows] == ["work:1", "held"]
# More threads than workloads have.
assert all(row["pool_threads"] >= 300 for row in rows)
' --threads=300 --lag=work:1,held
expect_refusal "a lag of nonsense" "is not accepted" "$crowd" --driver=standin \
    --lag=nonsense

expect_refusal "another's caches" '"refused":"it is not Moiety' \
    "$crowd" --driver=standin --subject=best-fit
expect_refusal "no caches" '"refused":"it has no caches' "$crowd" \
    --driver=standin --subject=moiety-nocache --cache=1000000 --threads=1
expect_refusal "a bound that is said twice" '"refused":"' env \
    MOIETY_CONF=cache:128M "$crowd" --driver=standin --cache=99999999
expect_refusal "no driver" /no/such.so "$crowd" --driver=/no/such.so

# $1: an argument that is refused; $2: words.
refuses() {
    expect_refusal "$1" "$2" "$crowd" "$1"
    "$crowd" "$1" >/dev/null 2>&1
    expect_text "$1: exit status" 2 $?
}
refuses --threads=0 "1 to 8192"
refuses --threads=8193 "1 to 8192"
refuses --streams=0 "1 to 64"
refuses --streams=65 "1 to 64"
refuses --pairs=0 "1 to 100000"
refuses --size=64KiBx "1 to 1099511627776"
refuses --size=0 "1 to 1099511627776"
refuses --cache=0 "1 to 1099511627776"
refuses --work=0 "1 to 10000000"
refuses --repeats=101 "1 to 100"
refuses --subject=nope "names of subjects, each once"
refuses --fast "--help says what is"
expect_refusal "a bound twice" "once" "$crowd" --cache=9 --cache=9
expect_ok "help" "$crowd" --help
finish
