#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# stress_test.sh SECONDS: the stress program on the stand-in, and what it says
# of mistakes that are made on purpose. STRESS_SEED says which random numbers.
set -u
. tests/gates/expect.sh

stress=tests/stress/stress
seconds=$1
common=(--driver="$PWD/pool/standin/libcuda.so.1" --seed="${STRESS_SEED:-1}")
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_CONF MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS

# expect CODE TEXT ARGUMENT...: the exit status, and a text that is printed.
expect() {
    expect_exit "$1" "$2" "$stress" "${common[@]}" "${@:3}"
}

expect 0 "0 overlaps, 0 lost bytes" --threads=4 --seconds="$seconds"
# More players than memory.
expect 0 "0 overlaps, 0 lost bytes" --threads=8 --seconds=1 --limit=32
expect 1 "OVERLAP: 0x" --threads=2 --seconds=1 --plant=overlap
expect 1 "0 merges to whole in 1 phases" --threads=2 --seconds=1 --plant=loss
expect 2 "--plant=nothing: accepted are overlap and loss" --plant=nothing
expect 2 "--seconds=0: accepted values are 1 to 86400" --seconds=0

finish
