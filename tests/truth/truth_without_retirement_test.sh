#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A pool that does not record its events must be found out: by a wrong word, not
# by a crash, and each time.
set -u

failures=0
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_CONF MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS

for seed in 1 2 3; do
    output=$(tests/truth/truth_without_retirement \
        --driver="$PWD/pool/standin/libcuda.so.1" \
        --threads=4 --streams=6 --operations=100000 --seed="$seed" 2>&1)
    result=$?
    if [ "$result" -eq 1 ] && [[ $output == *"WRONG: at 0x"* ]] &&
        [[ $output != *"never freed"* ]]; then
        echo "seed $seed: found: $(grep -m1 WRONG <<<"$output")"
    else
        echo "FAILED: seed $seed: exit status $result, and no wrong word in:"
        echo "$output"
        failures=$((failures + 1))
    fi
done
exit "$failures"
