#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Pools whose mapped memory moves wrongly must be found out, each time: by work
# that names an address without memory, or by a wrong word.
set -u

failures=0
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_CONF MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS

# expect PATTERN MUTANT ARGUMENT...: a line that is printed, where the exit status says
# that something is wrong.
expect() {
    local pattern=$1 mutant=$2 seed output result
    shift 2
    for seed in 1 2 3; do
        output=$("tests/truth/truth_$mutant" \
            --driver="$PWD/pool/standin/libcuda.so.1" --mapped=1 --large=60 \
            --operations=100000 --seed="$seed" "$@" 2>&1)
        result=$?
        if grep -qE "$pattern" <<<"$output" && [[ $result == [14] ]] &&
            [[ $output != *"never freed"* ]]; then
            echo "$mutant, seed $seed: found:" \
                "$(grep -m1 -E "$pattern" <<<"$output")"
        else
            echo "FAILED: $mutant, seed $seed: exit status $result, and no" \
                "line \"$pattern\" in:"
            echo "$output"
            failures=$((failures + 1))
        fi
    done
}

# Another handle may be at the old place by then.
few=(--threads=4 --streams=4 --limit=512)
expect "CUDA_ERROR_ILLEGAL_ADDRESS|WRONG: at 0x" unmaps_at_once "${few[@]}"
expect "WRONG: at 0x" moves_to_done "${few[@]}"
# Moves that are forced, and found out on a fast device too.
many=(--threads=16 --limit=1024 --moves=50)
expect "CUDA_ERROR_ILLEGAL_ADDRESS|WRONG: at 0x" unmaps_at_once "${many[@]}"
expect "WRONG: at 0x" moves_to_done "${many[@]}"
exit "$failures"
