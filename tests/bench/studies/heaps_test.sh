#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The model of heaps on a trace: a row for each of the rules and lags, and what is
# refused.
set -u
. tests/gates/expect.sh

heaps=bench/heaps/heaps
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF
folder=$(mktemp -d "${TEST_TMPDIR:-/tmp}/heaps.XXXXXX")
trap 'rm -rf "$folder"' EXIT
bench/replay/mix "$folder" 8:65536:8388608:7:2000 >/dev/null
trace=$(echo "$folder"/*.mtrace)

# $1: Python that asserts something of `rows`; more: arguments.
rows_are() {
    local checks=$1
    shift
    "$heaps" --driver=standin "$@" "$trace" | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
for row in rows:
    assert row["kind"] == "heaps" and row["is_standin"] and row["commit"]
    assert row["peak_live_bytes"] <= row["peak_reserved_bytes"]
by_rules = {row["rules"]: row for row in rows}
exec(sys.argv[1])' "$checks"
}

expect_ok "each of the rules" rows_are '
assert len(by_rules) == len(rows) > 10
assert {row["lag"] for row in rows} == {"idle"}
assert by_rules["stays"]["moves"] == by_rules["fixed-20m"]["moves"] == 0
assert by_rules["proposed"]["moves"] > 0
assert (by_rules["proposed"]["peak_reserved_bytes"]
        < by_rules["stays"]["peak_reserved_bytes"])'
expect_ok "lags" rows_are '
assert [row["lag"] for row in rows] == ["idle", "held"]
assert rows[1]["releases"] == 0' --rules=proposed --lag=idle,held
expect_ok "the list" "$heaps" --list
expect_ok "help" "$heaps" --help
expect_refusal "no trace" "no trace is named" "$heaps"
expect_refusal "no such rules" "names of --list" "$heaps" --rules=none "$trace"
expect_refusal "no such lag" "is not accepted" "$heaps" --lag=soon "$trace"
expect_refusal "no such file" "none.mtrace" "$heaps" "$folder/none.mtrace"
expect_refusal "no driver" /no/such.so "$heaps" --driver=/no/such.so \
    --rules=proposed "$trace"
finish
