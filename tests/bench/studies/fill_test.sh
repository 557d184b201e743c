#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How much of a limit can be filled: what is printed, and what is refused.
set -u
. tests/gates/expect.sh

fill=bench/studies/fill
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF

# $1: Python that asserts something of `rows`; more: arguments.
rows_are() {
    local checks=$1
    shift
    "$fill" --driver=standin "$@" | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
for row in rows:
    assert row["kind"] == "fill" and row["is_standin"] and row["commit"]
    assert 0 <= row["blocks"] * row["size_bytes"] <= row["limit_bytes"]
exec(sys.argv[1])' "$checks"
}

expect_ok "what the model of PyTorch'\''s allocator fills" rows_are '
assert [row["size_bytes"] for row in rows] == [512, 2 << 20, (2 << 20) + 1]
assert [row["most_blocks"] for row in rows] == [131072, 32, 31]
# Segments of 20 MiB, of which 4 MiB are left.
assert [row["blocks"] for row in rows] == [131072, 30, 27]
assert {row["limit_bytes"] for row in rows} == {64 << 20}
' --subject=best-fit --limit=67108864 --size=512,2097152,2097153
expect_ok "several subjects" rows_are '
assert [(row["subject"], row["size_bytes"]) for row in rows] == [
    ("moiety", 4096), ("mutex", 4096)]
assert all(row["blocks"] > 0 for row in rows)
' --subject=moiety,mutex --limit=268435456 --size=4096
expect_ok "the default sizes" rows_are '
assert len(rows) == 33 and rows[0]["size_bytes"] == 512
assert rows[-1]["size_bytes"] == 300 << 20
assert not any(row["is_random"] for row in rows)' --subject=pow2-buddy
expect_ok "random sizes" rows_are '
sizes = [row["size_bytes"] for row in rows[1:]]
assert len(set(sizes)) > 45 and all(row["is_random"] for row in rows[1:])
assert min(sizes) >= 512 and max(sizes) <= (1 << 30) // 3
' --subject=best-fit --size=512 --random=50
expect_ok "the same sizes each time, others with another seed" bash -c '
sizes() {
    "$0" --driver=standin --subject=best-fit --size=1048576 --random=9 "$@" |
        grep -o "\"size_bytes\":[0-9]*"
}
[ "$(sizes)" = "$(sizes)" ] && [ "$(sizes)" != "$(sizes --seed=2)" ]' "$fill"

expect_refusal "no limit" '"refused":"it cannot be limited"' \
    env MOIETY_STANDIN_MEMORY_POOLS=1 "$fill" --driver=standin \
    --subject=cuda-async
expect_refusal "no driver" /no/such.so "$fill" --driver=/no/such.so \
    --subject=moiety

# $1: an argument that is refused; $2: words.
refuses() {
    expect_refusal "$1" "$2" "$fill" "$1"
    "$fill" "$1" >/dev/null 2>&1
    expect_text "$1: exit status" 2 $?
}
refuses --subject=nope "names of subjects, each once"
refuses --subject=moiety,moiety "names of subjects, each once"
refuses --subject= "names of subjects, each once"
refuses --limit=1GiBx "2097152 to 1099511627776"
refuses --limit=2097151 "2097152 to"
refuses --size=0 "1 to 1099511627776"
refuses --size= "1 to 1099511627776"
refuses --size=1, "1 to 1099511627776"
refuses --size=1,x "1 to 1099511627776"
refuses --size=99999999999999999999999999 "1 to 1099511627776"
refuses --random=-1 "0 to 100000"
refuses --random=100001 "0 to 100000"
refuses --seed=0 "1 to 2^60 - 1"
refuses --json= "a name is wanted"
refuses --lag=held "--help says what is"
refuses --fast "--help says what is"
refuses --json=/no/folder/rows "No such file"
expect_ok "help" "$fill" --help
finish
