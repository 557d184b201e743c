#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Pools whose mapped memory moves wrongly must be found out, each time: by work
# that names an address without memory, or by a wrong word.
set -u

failures=0
unset BINADE_DRIVER BINADE_REQUIRE_GPU BINADE_CONF BINADE_STANDIN_COST \
    BINADE_STANDIN_FAULTS

# expect CODE TEXT MUTANT: the exit status, and a text that is printed.
expect() {
    local code=$1 text=$2 mutant=$3 seed output actual
    for seed in 1 2 3; do
        output=$("tests/truth/truth_$mutant" \
            --driver="$PWD/pool/standin/libcuda.so.1" --mapped=1 --large=60 \
            --limit=512 --threads=4 --streams=4 --operations=100000 \
            --seed="$seed" 2>&1)
        actual=$?
        if [ "$actual" -eq "$code" ] && [[ $output == *"$text"* ]] &&
            [[ $output != *"never freed"* ]]; then
            echo "$mutant, seed $seed: found: $(grep -m1 "$text" <<<"$output")"
        else
            echo "FAILED: $mutant, seed $seed: exit status $actual (wanted" \
                "$code), and not \"$text\" in:"
            echo "$output"
            failures=$((failures + 1))
        fi
    done
}

expect 4 CUDA_ERROR_ILLEGAL_ADDRESS unmaps_at_once
expect 1 "WRONG: at 0x" moves_to_done
exit "$failures"
