#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Memory that goes from one stream to another: what is printed, and what is
# refused. Not how long it takes.
set -u
. tests/gates/expect.sh

reuse=bench/studies/reuse
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF

# $1: Python that asserts something of `rows`; more: arguments.
rows_are() {
    local checks=$1
    shift
    "$reuse" --driver=standin --pairs=50 "$@" | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
for row in rows:
    assert row["kind"] == "reuse" and row["is_standin"] and row["commit"]
    assert row["live_bytes"] == row["blocks"] * row["size_bytes"]
    assert row["live_bytes"] <= row["reserved_bytes"]
    assert 0 <= row["failed"] <= row["asked"]
    if row["part"] != "unlimited":
        assert row["reserved_bytes"] <= row["limit_bytes"]
exec(sys.argv[1])' "$checks"
}

expect_ok "all parts" rows_are '
assert [row["part"] for row in rows] == ["wait", "poll", "unlimited"]
assert [row["blocks"] for row in rows] == [2, 2, 64]
assert [row["limit_bytes"] for row in rows] == [2 << 20, 2 << 20, 0]
assert [row["asked"] for row in rows if row["part"] != "poll"] == [50, 3200]
for row in rows:
    assert 0 < row["median_ns"] <= row["p99_ns"] and row["mean_ns"] > 0
    assert (row["size_bytes"], row["failed"], row["pairs"]) == (1 << 20, 0, 50)
    assert row["work_ns"] is row["mean_lags"] is row["p99_lags"] is None
' --subject=moiety
expect_ok "a device that lags" rows_are '
assert [row["lag"] for row in rows] == ["work:1000"] * 2 + ["held"] * 2
for row in rows[:2]:
    # A block was waited for once at least, though its work began before.
    assert row["p99_ns"] > 500000
    assert abs(row["mean_lags"] - row["mean_ns"] / row["work_ns"]) < 0.01
assert rows[1]["asked"] > 50 == rows[0]["asked"]
assert ["releases" in row for row in rows] == [False] * 2 + [True] * 2
assert rows[3]["releases"] > 0 == rows[3]["failed"] and not rows[3]["work_ns"]
' --subject=moiety --part=wait,poll --lag=work:1000,held
expect_ok "what stays with the stream that freed it fails" rows_are '
assert [(row["failed"], row["asked"]) for row in rows] == [(50, 50)]
assert rows[0]["mean_ns"] is rows[0]["median_ns"] is None
' --subject=best-fit --part=wait
expect_ok "and a whole segment does not" rows_are '
assert [(row["failed"], row["blocks"]) for row in rows] == [(0, 1), (0, 3)]
assert rows[1]["reserved_bytes"] == 2 * rows[1]["live_bytes"]
' --subject=best-fit --part=wait,unlimited --size=16777216 --blocks=3
expect_ok "threads, a limit, repeats and a pause" rows_are '
assert [(row["subject"], row["part"], row["repeat"]) for row in rows] == [
    (subject, part, repeat)
    for subject in ("moiety", "moiety-nocache", "moiety-mapped")
    for repeat in (0, 1) for part in ("wait", "unlimited")]
for row in rows:
    assert (row["threads"], row["failed"]) == (3, 0)
    if row["part"] == "wait":
        assert (row["blocks"], row["limit_bytes"]) == (1024, 4 << 20)
    else:
        assert row["blocks"] == 6 and row["mean_ns"] > row["pause_ns"] == 2000
' --subject=moiety,moiety-nocache,moiety-mapped --part=wait,unlimited \
    --threads=3 --limit=4194304 --size=4096 --repeats=2 --blocks=2 --pause=2000
expect_ok "only Moiety can be polled" rows_are 'assert not rows' \
    --subject=cuda-malloc,best-fit --part=poll

expect_refusal "no order of streams" '"refused":"it knows no streams"' \
    "$reuse" --driver=standin --subject=mutex
expect_refusal "no limit" '"refused":"it cannot be limited"' \
    env MOIETY_STANDIN_MEMORY_POOLS=1 "$reuse" --driver=standin \
    --subject=cuda-async
expect_refusal "no room" '"refused":"there is no room for the blocks' \
    "$reuse" --driver=standin --subject=best-fit --threads=3 --limit=2097152
expect_refusal "no driver" /no/such.so "$reuse" --driver=/no/such.so \
    --subject=moiety

# $1: an argument that is refused; $2: words.
refuses() {
    expect_refusal "$1" "$2" "$reuse" "$1"
    "$reuse" "$1" >/dev/null 2>&1
    expect_text "$1: exit status" 2 $?
}
refuses --part=most "wait, poll, unlimited"
refuses --part=poll,poll "each once at most"
refuses --part= "wait, poll, unlimited"
refuses --threads=0 "1 to 256"
refuses --threads=257 "1 to 256"
refuses --pairs=0 "1 to 10000000"
refuses --size=0 "1 to 1099511627776"
refuses --size=1MiBx "1 to 1099511627776"
refuses --limit=2097151 "2097152 to"
refuses --between=-1 "0 to 1000000000"
refuses --between=1000000001 "0 to 1000000000"
refuses --blocks=0 "1 to 4096"
refuses --blocks=4097 "1 to 4096"
refuses --pause= "0 to 1000000000"
refuses --repeats=101 "1 to 100"
refuses --lag=busy "idle, held, or one or more of work:1"
refuses --fast "--help says what is"
expect_ok "help" "$reuse" --help
finish
