#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Peers of mapped memory: what is printed of copies and of adding a device, and
# what is refused where there are no kernels or no second device. What kernels see
# is for GPUs.
set -u
. tests/gates/expect.sh

peers=bench/studies/mapped/peers
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF
export MOIETY_STANDIN_DEVICES=2

prints_copies() {
    "$peers" --driver=standin --part=copies --mib=4 | python3 -c '
import json, sys
row, = map(json.loads, sys.stdin)
assert row["bytes"] == 4 << 20
for key in ("pool_to_1", "pool_to_0", "cuMemAlloc_to_1", "cuMemAlloc_to_0"):
    assert row[key] > 0, key
assert row["without_access"] == 1
'
}

prints_adding() {
    "$peers" --driver=standin --part=adding --mib=32 | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
assert [row["bytes"] >> 20 for row in rows] == [2, 8, 32]
assert all(0 <= row["ms"] < 1e4 for row in rows)
'
}

expect_ok "copies" prints_copies
expect_ok "adding" prints_adding
expect_refusal "no kernels" "cuModuleLoadData" "$peers" --driver=standin
expect_refusal "one device" "cuDeviceGet" \
    env MOIETY_STANDIN_DEVICES=1 "$peers" --driver=standin --part=copies
expect_refusal "devices apart" "cannot access" \
    env MOIETY_STANDIN_PEERS=0 "$peers" --driver=standin --part=copies
expect_refusal "an unknown part" "bad argument" "$peers" --part=all
expect_refusal "too small" "bad argument" "$peers" --mib=1
expect_refusal "no driver" "/no/such.so" "$peers" --driver=/no/such.so
finish
