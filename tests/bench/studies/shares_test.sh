#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Mapped memory between processes: what is printed, on one device and on two, and
# what is refused.
set -u
. tests/gates/expect.sh

shares=bench/studies/mapped/shares
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF
export MOIETY_STANDIN_DEVICES=2

# $1: the importer's device
prints_rows() {
    "$shares" --driver=standin --mib=6 --imports=10 --device="$1" |
        python3 -c '
import json, sys
rows = {row["part"]: row for row in map(json.loads, sys.stdin)}
assert set(rows) == {"used", "used, by the owner", "owner-killed",
                     "importer-killed"}, rows
for row in rows.values():
    assert row["bytes"] == 6 << 20 and row["wrong_words"] == 0
    assert row["device"] == '"$1"'
for key in ("receipt_ms", "import_ns", "from_shared", "to_shared",
            "from_cuMemAlloc", "to_cuMemAlloc"):
    assert rows["used"][key] > 0, key
'
}

expect_ok "rows of one device" prints_rows 0
expect_ok "rows of two devices" prints_rows 1
expect_refusal "a device that is not there" "cuDeviceGet" \
    "$shares" --driver=standin --mib=2 --device=2
expect_refusal "devices apart" "access" \
    env MOIETY_STANDIN_PEERS=0 "$shares" --driver=standin --part=used --mib=2 \
    --device=1
expect_refusal "a copy that fails" "cuMemcpyDtoHAsync" \
    env MOIETY_STANDIN_FAULTS="cuMemcpyDtoHAsync_v2:every=1:code=CUDA_ERROR_UNKNOWN" \
    "$shares" --driver=standin --mib=2
expect_refusal "an unknown part" "bad argument" "$shares" --part=all
expect_refusal "too small" "bad argument" "$shares" --mib=1
expect_refusal "no driver" "/no/such.so" "$shares" --driver=/no/such.so
finish
