#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Pauses of an arena: what is printed, with contents and without, and that all
# words are right.
set -u
. tests/gates/expect.sh

pauses=bench/studies/mapped/pauses
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF

prints_rows() {
    "$pauses" --driver=standin --mib=16 --block=4 --cycles=3 | python3 -c '
import json, sys
without, kept = map(json.loads, sys.stdin)
assert not without["keeps"] and kept["keeps"]
for row in (without, kept):
    assert row["bytes"] == 16 << 20 and row["cycles"] == 3
    assert row["wrong_words_replayed"] == 0
    assert 0 < row["pause_ms"] <= row["pause_most_ms"]
    assert 0 < row["resume_ms"] <= row["resume_most_ms"]
assert kept["wrong_words"] == 0 and kept["pause_gb_s"] > 0
'
}

expect_ok "rows" prints_rows
expect_refusal "too small" "bad argument" "$pauses" --mib=1
expect_refusal "no driver" "/no/such.so" "$pauses" --driver=/no/such.so
expect_refusal "a copy that fails" "cuMemcpyDtoHAsync" \
    env MOIETY_STANDIN_FAULTS="cuMemcpyDtoHAsync_v2:every=1:code=CUDA_ERROR_UNKNOWN" \
    "$pauses" --driver=standin --mib=4 --block=2 --cycles=1
finish
