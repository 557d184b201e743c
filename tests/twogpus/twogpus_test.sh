#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Pools of two devices on the stand-in, a moment of it. TWOGPUS_SEED says which
# random numbers.
set -u
. tests/gates/expect.sh

twogpus=tests/twogpus/twogpus
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_CONF MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_STANDIN_PEERS
export MOIETY_STANDIN_DEVICES=2
common=(--driver="$PWD/pool/standin/libcuda.so.1" --threads=3
    --seed="${TWOGPUS_SEED:-1}")

all_words_are_right() {
    "$twogpus" "${common[@]}" --operations=300 --shared=1 | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin if line.startswith("{")]
shared = [row for row in rows if row["kind"] == "twogpus-ipc"]
assert {(row["side"], row["device"], row["mapped"]) for row in shared} == {
    (side, device, mapped) for side in ("owner", "importer")
    for device in (0, 1) for mapped in (0, 1)}
assert all(row["words"] == 12 << 20 for row in shared)
pools = [row for row in rows if row["kind"] == "twogpus-pool"]
assert [(row["device"], row["mapped"]) for row in pools] == [
    (0, 0), (0, 1), (1, 0), (1, 1)]
assert all(row["allocations"] > 0 == row["leaked_blocks"] for row in pools)
verdict = rows[-1]
assert verdict["kind"] == "twogpus" and verdict["operations"] >= 300
assert verdict["crossing"] > 0 < verdict["handed_on"]
assert verdict["words"] >= 300 * 128
for row in shared + [verdict]:
    assert row["wrong_words"] == 0, row
'
}

expect_ok "two devices" all_words_are_right
# As if nothing used the blocks any more.
expect_exit 1 "WRONG: expected" "$twogpus" "${common[@]}" --planted=1 --shared=0

expect_exit 3 "two devices are needed, and there is one" \
    env MOIETY_STANDIN_DEVICES=1 "$twogpus" "${common[@]}"
expect_exit 3 "do not reach each other" \
    env MOIETY_STANDIN_PEERS=0 "$twogpus" "${common[@]}" --shared=0
expect_exit 3 "MOIETY_REQUIRE_GPU=1" \
    env MOIETY_REQUIRE_GPU=1 "$twogpus" "${common[@]}" --shared=0
expect_exit 3 "/no/such.so" "$twogpus" --driver=/no/such.so --shared=0
expect_exit 2 "--threads=0: accepted values are 1 to 256" "$twogpus" --threads=0
expect_exit 2 "--shared=65: accepted values are 0 to 64" "$twogpus" --shared=65
expect_exit 2 "--fast is not accepted" "$twogpus" --fast
finish
