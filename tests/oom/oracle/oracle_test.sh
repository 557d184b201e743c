#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# oracle_test.sh rules FAILURES: the oracle program on the pool, and what it says
# of bad arguments.
# oracle_test.sh mutants FAILURES: on pools with one change for the worse, which
# it has to find.
# oracle_test.sh rare FAILURES: the same of one that seldom does harm.
# ORACLE_SEED says which random numbers.
set -u
. tests/gates/expect.sh

part=$1
wanted=$2
common=(--driver="$PWD/pool/standin/libcuda.so.1" --seed="${ORACLE_SEED:-1}"
    --failures="$wanted")
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_CONF MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY

# expect CODE TEXT PROGRAM ARGUMENT...: the exit status, and a text that is
# printed.
expect() {
    expect_exit "$1" "$2" "tests/oom/oracle/$3" "${common[@]}" "${@:4}"
}

has_none() {
    expect 0 " 0 false" oracle --run=turns
    # Done memory in a cache of a stream whose work lasts.
    expect 0 " 0 false" oracle --run=turns --seed=7300 --failures=100
    expect 0 " 0 false" oracle --run=threads --steps=200
    expect 0 " 0 failures" oracle --run=one --pools=20
    # Memory whose pieces move.
    expect 0 " 0 false" oracle --memory=mapped --run=turns
    expect 0 " 0 false" oracle --memory=mapped --run=turns --threads=1 \
        --segments=one
    expect 0 " 0 false" oracle --memory=mapped --run=threads --steps=200
    # The verdicts themselves: what was refused truly is refused again when
    # nothing is pending any more, and all else is served.
    expect 0 "0 of the true ones were served, 0 of the others refused" oracle \
        --run=turns --check=yes
    expect 0 "0 of the true ones were served, 0 of the others refused" oracle \
        --memory=mapped --run=turns --check=yes
}

refuses_bad_arguments() {
    expect 2 "--run=neither is not accepted" oracle --run=neither
    expect 2 "--memory=neither is not accepted" oracle --memory=neither
    expect 2 "--segments=few is not accepted" oracle --segments=few
    expect 2 "--threads=0: accepted values are 1 to 8" oracle --threads=0
}

finds_mutants() {
    local name shrunk=$TEST_TMPDIR/shrunk
    # It waits for most of its time: the others play meanwhile.
    {
        tests/oom/oracle/oracle_trims_nothing "${common[@]}" --run=turns
        echo $? >"$shrunk.status"
    } >"$shrunk" 2>&1 &
    for name in closes_nobody asks_no_stream forgets_streams_of_uses; do
        expect 1 " of these inexact" "oracle_$name" --run=turns --show=0
    done
    for name in closes_nobody asks_no_stream moves_nothing; do
        expect 1 " of these inexact" "oracle_$name" --memory=mapped \
            --run=turns --show=0
    done
    # What rests in idle caches is little while a pool grows.
    expect 1 " of these inexact" oracle_leaves_idle_caches --run=turns --show=0 \
        --failures=5000
    expect 1 "it fits:" oracle_closes_nobody --run=threads --steps=200
    wait $!
    expect_exit 1 "shrunk:" bash -c 'cat "$0"; exit "$(cat "$0.status")"' "$shrunk"
}

case $part in
rules)
    has_none
    refuses_bad_arguments
    ;;
mutants) finds_mutants ;;
rare)
    # Of 15 000 failures about one is false.
    expect 1 " of these inexact" oracle_trims_once --run=turns --show=0
    ;;
*)
    echo "$part is no part of this test"
    exit 2
    ;;
esac
finish
