#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The cost of taking idle threads' caches: what is printed, and what is refused.
# Not how long it takes.
set -u
. tests/gates/expect.sh

reclaim=bench/studies/reclaim
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF

# $1: threads; $2: whether there is a membarrier; more: options.
prints_a_row() {
    "$reclaim" --driver=standin --threads="$1" "${@:3}" | python3 -c '
import json, sys
(row,) = map(json.loads, sys.stdin)
assert row["threads"] == int(sys.argv[1])
assert row["membarrier"] == (sys.argv[2] == "true")
assert 0 < row["ns_least"] <= row["ns_median"] <= row["ns_most"]
assert abs(row["ns_per_thread_median"] * row["threads"] - row["ns_median"]) < 99
' "$1" "$2"
}

expect_ok "one thread" prints_a_row 1 true
expect_ok "some threads with a block each" prints_a_row 8 true --blocks=1
expect_ok "no membarrier" prints_a_row 4 false --no-membarrier
expect_refusal "no thread" "bad argument" "$reclaim" --threads=0
expect_refusal "too many" "bad argument" "$reclaim" --threads=257
expect_refusal "no number" "bad argument" "$reclaim" --blocks=many
expect_refusal "an unknown option" "bad argument" "$reclaim" --fast
expect_refusal "no driver" "/no/such.so" "$reclaim" --driver=/no/such.so
expect_refusal "no memory" "reclaim: failed" env MOIETY_STANDIN_MEMORY=2MiB \
    "$reclaim" --driver=standin --threads=2 --blocks=1024
finish
