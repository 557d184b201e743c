#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Threads beside one that makes pieces move: what is printed, and that they did
# move.
set -u
. tests/gates/expect.sh

beside=bench/studies/mapped/beside
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF

prints_both() {
    "$beside" --driver=standin --threads=2 --pairs=20000 | python3 -c '
import json, sys
alone, beside = map(json.loads, sys.stdin)
for row in (alone, beside):
    assert row["threads"] == 2 and row["pairs"] == 40000
    assert 0 < row["median_ns"] <= row["p99_ns"] <= row["p999_ns"]
assert not alone["has_mover"] and alone["moves"] == 0
assert beside["has_mover"] and beside["moves"] > 0
assert beside["moved_bytes"] >= beside["moves"] * (2 << 20)
'
}

expect_ok "both" prints_both
expect_refusal "no threads" "bad argument" "$beside" --threads=0
expect_refusal "no pairs" "bad argument" "$beside" --pairs=0
expect_refusal "no memory" "failed" \
    env MOIETY_STANDIN_MEMORY=2MiB "$beside" --driver=standin
expect_refusal "no driver" "/no/such.so" "$beside" --driver=/no/such.so
finish
