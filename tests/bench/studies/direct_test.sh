#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The loops without the harness: what they print, and what they refuse. Not how
# long they take.
set -u
. tests/gates/expect.sh

direct=bench/studies/direct
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF

# $1: bytes. Each subject that needs no package has a line with numbers that a
# clock can have measured.
prints_all() {
    "$direct" --driver=standin --size="$1" | python3 -c '
import json, sys
rows = {row["subject"]: row for row in map(json.loads, sys.stdin)}
for name in ("moiety", "moiety_sized", "malloc"):
    row = rows[name]
    assert row["size_bytes"] == int(sys.argv[1])
    assert 0 < row["ns_per_op_least"] <= row["ns_per_op_median"]
    assert row["ns_per_op_median"] <= row["ns_per_op_most"]
' "$1"
}

expect_ok "all subjects" prints_all 65536
expect_ok "a small block" prints_all 256
expect_refusal "no size" "bad argument" "$direct" --size=0
expect_refusal "no number" "bad argument" "$direct" --size=many
expect_refusal "an unknown option" "bad argument" "$direct" --fast
expect_refusal "no driver" "/no/such.so" "$direct" --driver=/no/such.so
expect_refusal "no memory" "the pool never reserves more than" env MOIETY_STANDIN_MEMORY=4MiB \
    "$direct" --driver=standin --size=8388608
finish
