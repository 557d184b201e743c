#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How long locks of heaps are held: what is printed, and what is refused. Not what it
# is.
set -u
. tests/gates/expect.sh

hold=bench/studies/hold
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF

# $1: Python that asserts something of `rows`; more: arguments.
rows_are() {
    local checks=$1
    shift
    "$hold" --driver=standin --ms=30 --blocks=3000 --threads=1,2 "$@" |
        python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
for row in rows:
    assert row["kind"] == "hold" and row["is_standin"] and row["commit"]
    assert row["machine"]["processors"] > 0 and row["device"] and row["date"]
    assert row["operations"] > 0
    for who in ("", "drainer_") if row["part"] == "drain" else ("",):
        holds, mean, p999, longest = (row[who + key] for key in (
            "holds", "mean_ns", "p999_ns", "longest_us"))
        assert holds > 0 and 0 < mean <= longest * 1000
        assert abs(row[who + "held_ms"] * 1e6 / holds / mean - 1) < 0.001
        assert 0 < p999 <= longest * 1008
        assert (longest > 10) == (row[who + "above_10us"] > 0)
        for key in ("longest_us", "above_10us"):
            of = [row[who + kind + key] for kind in ("", "kept_", "quiet_")]
            assert of == sorted(of, reverse=True)
        if not row[who + "switches"]:
            assert row[who + "kept_longest_us"] == longest
        assert row[who + "faults"] >= 0
    assert 0 <= row.get("drainer_busy", 0) <= 4
    assert row.get("cut", 0) <= row["threads"]
    assert ("drainer_holds" in row) == (row["part"] == "drain")
exec(sys.argv[1])' "$checks"
}

expect_ok "all parts, on both kinds of memory and of streams" rows_are '
assert [(row["subject"], row["part"], row["threads"], row["streams"])
        for row in rows] == [
    (subject, part, threads, streams)
    for subject in ("moiety", "moiety-mapped")
    for part in ("noise", "mixed", "random", "drain")
    for threads, streams in ((1, "own"), (2, "own"), (2, "one"))
    if part != "noise" or streams == "own"]
for row in rows:
    assert row["part"] != "noise" or row["holds"] == row["operations"]
'
# Each block goes to its stream by a hold, at least, where no cache keeps it.
expect_ok "every hold is told of" rows_are '
assert [row["repeat"] for row in rows] == [0, 0, 0, 1, 1, 1]
for row in rows:
    assert row["holds"] >= row["operations"]
    assert row["drainer_holds"] >= 3000
' --subject=moiety-nocache --part=drain --repeats=2

expect_refusal "not our pool" "it is not Moiety's" "$hold" --driver=standin \
    --subject=best-fit
expect_refusal "no memory" "there is too little memory" env \
    MOIETY_STANDIN_MEMORY=4MiB "$hold" --driver=standin --part=mixed \
    --threads=1 --ms=30
expect_refusal "no driver" /no/such.so "$hold" --driver=/no/such.so

# $1: an argument that is refused; $2: words.
refuses() {
    expect_exit 2 "$2" "$hold" "$1"
}
refuses --memory=most "fixed, mapped or both"
refuses --part=most "noise, mixed, random, drain"
refuses --part=drain,drain "each once at most"
refuses --threads=0 "1 to 255 each"
refuses --threads=1,256 "1 to 255 each"
refuses --threads=1,,2 "1 to 255 each"
refuses --threads=1,1,1,1,1,1,1,1,1 "8 numbers at most"
refuses --ms=0 "1 to 60000"
refuses --blocks=4000001 "1 to 4000000"
refuses --repeats=0 "1 to 100"
expect_ok "help" "$hold" --help
finish
