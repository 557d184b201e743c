#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The truth test on the stand-in, a few seconds of it. TRUTH_SEED says which
# random numbers, TRUTH_SECONDS how long each of the runs may take.
set -u
. tests/gates/expect.sh

truth=tests/truth/truth
driver=$PWD/pool/standin/libcuda.so.1
seed=${TRUTH_SEED:-1}
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_CONF MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS

# expect CODE TEXT ARGUMENT...: the exit status, and a text that is printed.
expect() {
    expect_exit "$1" "$2" "$truth" "${@:3}"
}

common=(--driver="$driver" --operations=20000 --seed="$seed"
    --seconds="${TRUTH_SECONDS:-2}")
right=" operations, 0 wrong bytes"
expect 0 "$right" "${common[@]}" --threads=4 --streams=6
expect 0 "$right" "${common[@]}" --threads=4 --streams=6 --own=0
# So little memory that most of it is always waiting for an event.
expect 0 "$right" "${common[@]}" --threads=4 --streams=12 --limit=16 \
    --wait=0
expect 0 "$right" "${common[@]}" --threads=3 --streams=4 --limit=16 --handover=1
# Nobody to share with: one thread, one stream and its own.
expect 0 "$right" "${common[@]}" --threads=1 --streams=1
# Pieces of memory that move between streams' heaps, and under work that waits.
expect 0 "$right" "${common[@]}" --threads=4 --streams=4 --limit=256 --mapped=1 \
    --large=20
expect 0 "$right" "${common[@]}" --threads=2 --streams=2 --limit=512 --mapped=1 \
    --large=60 --wait=0
# What has readers moves all the time.
expect 0 "$right" "${common[@]}" --threads=4 --streams=4 --limit=512 --mapped=1 \
    --large=60 --moves=20 --held=5000
# Without mapped memory nothing moves.
expect 0 "$right" "${common[@]}" --threads=4 --streams=4 --limit=256 --moves=20 \
    --held=5000

expect 2 "--moves=x" --moves=x
expect 2 "--held=0: accepted values are 1 to 1000000" --held=0
expect 2 "--threads=0: accepted values are 1 to 256" --threads=0
expect 2 "--fast is not accepted" --fast
expect 3 "/no/such.so" --driver=/no/such.so

finish
