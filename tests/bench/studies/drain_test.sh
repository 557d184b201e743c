#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Trims after many frees, streams and growth: what is printed, and what is
# refused. Not what they take.
set -u
. tests/gates/expect.sh

drain=bench/studies/drain
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF

# $1: Python that asserts something of `rows`; more: arguments.
rows_are() {
    local checks=$1
    shift
    "$drain" --driver=standin --blocks=3000 --threads=2 --quiet=20 \
        --streams=40 --mib=9 "$@" | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
for row in rows:
    assert row["kind"] == "drain" and row["is_standin"] and row["commit"]
    assert row["machine"]["processors"] > 0 and row["device"] and row["date"]
    assert row["peak_reserved_bytes"] >= row["reserved_bytes"]
exec(sys.argv[1])' "$checks"
}

expect_ok "a trim, in both kinds of memory" rows_are '
assert [(row["subject"], row["pattern"]) for row in rows] == [
    (subject, pattern) for subject in ("moiety", "moiety-mapped")
    for pattern in ("all", "apart")]
for row in rows:
    assert (row["blocks"], row["threads"]) == (3000, 2)
    assert row["retiring_bytes"] >= 3000 * 4096 * 9 // 10
    assert row["synchronize_ms"] >= 0 < row["trim_ms"]
    assert row["free_ns"] > 0 and row["second_trim_ms"] >= 0
    for phase in ("quiet", "freeing", "draining", "trimming", "after"):
        calls, p999, longest = (row[f"{phase}_{name}"] for name in (
            "calls", "p999_us", "longest_us"))
        assert calls > 0 and 0 < p999 <= longest, phase
    assert row["given_back_bytes"] % (2 << 20) == 0
    assert row["reserved_bytes"] >= 3000 * 4096
    assert row["trimmed_reserved_bytes"] > 0
' --part=trim
expect_ok "a drain by an allocation" rows_are '
assert [row["subject"] for row in rows] == ["moiety-mapped"]
(row,) = rows
assert row["limit_bytes"] == 14 << 20 and row["failed"] == 0 <= row["ms"]
assert row["limit_bytes"] >= row["reserved_bytes"]
assert row["retiring_bytes"] >= 3000 * 4096 * 9 // 10
' --part=drain --memory=mapped
expect_ok "streams" rows_are '
assert [(row["way"], row["step"]) for row in rows] == [
    (way, step) for way in ("all at a time", "one at a time")
    for step in ("first", "second", "third", "trim")]
for row in rows:
    assert (row["streams"], row["block_bytes"]) == (40, 65536)
    assert (row["reserved_bytes"] == 0) == (row["step"] == "trim")
' --part=streams --memory=fixed
expect_ok "growth" rows_are '
assert [row["way"] for row in rows] == [
    "reserve", "reserve beside 8 times as much", "one block",
    "blocks of 2 MiB"] * 2
for row in rows:
    assert row["bytes"] == 8 << 20 and row["segments"] > 0
    times = 9 if "beside" in row["way"] else 1
    assert row["reserved_bytes"] >= times * row["bytes"]
    assert row["trim_ms"] >= 0 and row["ms"] >= 0
assert [row["repeat"] for row in rows] == [0] * 4 + [1] * 4
' --part=growth --memory=fixed --repeats=2
expect_ok "all parts, without caches" rows_are '
assert [row["part"] for row in rows] == \
    ["trim"] * 2 + ["drain"] + ["streams"] * 8 + ["growth"] * 4
assert {row["subject"] for row in rows} == {"moiety-nocache"}
' --subject=moiety-nocache --memory=both

expect_refusal "not our pool" "it is not Moiety's" "$drain" --driver=standin \
    --subject=best-fit
expect_refusal "no memory" "drain: " env MOIETY_STANDIN_MEMORY=4MiB "$drain" \
    --driver=standin --part=trim --blocks=3000 --threads=1
expect_refusal "no driver" /no/such.so "$drain" --driver=/no/such.so

# $1: an argument that is refused; $2: words.
refuses() {
    expect_exit 2 "$2" "$drain" "$1"
}
refuses --memory=most "fixed, mapped or both"
refuses --memory= "fixed, mapped or both"
refuses --part=most "trim, drain, streams, growth"
refuses --part=trim,trim "each once at most"
refuses --blocks=0 "1 to 4000000"
refuses --threads=256 "1 to 255"
refuses --quiet=0 "1 to 60000"
refuses --streams=65537 "1 to 65536"
refuses --mib=1 "2 to 65536"
refuses --repeats=101 "1 to 100"
refuses --lag=idle "--help says what is"
expect_ok "help" "$drain" --help
finish
