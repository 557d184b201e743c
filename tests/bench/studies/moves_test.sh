#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Moving pages: what is printed of the driver's calls, and what is refused where
# there are no kernels. What kernels see is for a GPU.
set -u
. tests/gates/expect.sh

moves=bench/studies/mapped/moves
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF

# Each size of a handle has a row, with times that a clock can have measured.
prints_calls() {
    "$moves" --driver=standin --part=calls | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
assert [row["handle_bytes"] >> 20 for row in rows] == [2, 8, 32, 64, 256]
for row in rows:
    for call in ("create", "map", "access", "unmap", "release"):
        assert 0 <= row[call + "_us"] < 1e6
'
}

# Each size and number of handles has one.
prints_ranges() {
    "$moves" --driver=standin --part=ranges | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
assert [(row["handle_bytes"] >> 20, row["handles"]) for row in rows] == [
    (size, count) for size in (2, 8, 32, 64) for count in (1, 4, 16)]
for row in rows:
    for call in ("map", "access", "unmap"):
        assert 0 <= row[call + "_us"] < 1e6
'
}

expect_ok "the calls" prints_calls
expect_ok "the ranges" prints_ranges
expect_refusal "no kernels" "cuModuleLoadData" "$moves" --driver=standin
expect_refusal "no memory" "cuMemCreate: error 2" \
    env MOIETY_STANDIN_MEMORY=64MiB "$moves" --driver=standin --part=calls
expect_refusal "an unknown part" "bad argument" "$moves" --part=all
expect_refusal "no rounds" "bad argument" "$moves" --rounds=0
expect_refusal "no driver" "/no/such.so" "$moves" --driver=/no/such.so
finish
