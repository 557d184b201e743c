#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# oracle_test.sh rules FAILURES: the oracle program on the pool, by rules that
# the pool keeps, and what it says of bad arguments.
# oracle_test.sh mutants FAILURES: on pools with one change for the worse, which
# it has to find. ORACLE_SEED says which random numbers.
set -u

part=$1
wanted=$2
failures=0
common=(--driver="$PWD/pool/standin/libcuda.so.1" --seed="${ORACLE_SEED:-1}"
    --granule=2097152 --event=late --after=no --failures="$wanted")
unset BINADE_DRIVER BINADE_REQUIRE_GPU BINADE_CONF BINADE_STANDIN_COST \
    BINADE_STANDIN_FAULTS BINADE_STANDIN_MEMORY

# expect CODE TEXT PROGRAM ARGUMENT...: the exit status, and a text that is
# printed.
expect() {
    local code=$1 text=$2 program=$3 output actual
    shift 3
    output=$("tests/oom/oracle/$program" "${common[@]}" "$@" 2>&1)
    actual=$?
    if [ "$actual" -ne "$code" ] || [[ $output != *"$text"* ]]; then
        echo "FAILED: $program $*: exit status $actual (wanted $code), and not" \
            "\"$text\" in:"
        echo "$output"
        failures=$((failures + 1))
    fi
}

keeps_the_rules() {
    expect 0 " 0 false" oracle --run=turns
    # Not yet: a pool that may not wait does not reach the cache of a thread that
    # is in a call, and what became free by waiting is not grown anew.
    expect 0 " 0 false" oracle --run=threads --steps=200 --wait=200 \
        --segments=one
    # The verdicts themselves: what was refused truly is refused again when
    # nothing is pending any more, and all else is served.
    expect 0 "0 of the true ones were served, 0 of the others refused" oracle \
        --run=turns --check=yes
}

refuses_bad_arguments() {
    expect 2 "--run=neither is not accepted" oracle --run=neither
    expect 2 "--event=maybe is not accepted" oracle --event=maybe
    expect 2 "--granule=1536 is not accepted: no power of two" oracle \
        --granule=1536
    expect 2 "--granule=256: accepted values are 512 to 2097152" oracle \
        --granule=256
    expect 2 "--threads=0: accepted values are 1 to 8" oracle --threads=0
}

finds_mutants() {
    expect 1 "shrunk:" oracle_trims_nothing --run=turns
    expect 1 "shrunk:" oracle_leaves_idle_caches --run=turns
    expect 1 "it fits:" oracle_trims_nothing --run=threads --steps=200
}

case $part in
rules)
    keeps_the_rules
    refuses_bad_arguments
    ;;
mutants) finds_mutants ;;
*)
    echo "$part is no part of this test"
    exit 2
    ;;
esac
[ "$failures" -eq 0 ] && echo "$part: as they should be"
exit "$failures"
