#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mutants.sh [--driver=FILE] --control=PROGRAM... MUTANT=TEST...
#
# Each MUTANT, a program made by mutants.bzl, must fail its TEST, a GoogleTest
# filter; one that passes has survived. The tests must pass in the CONTROLs,
# which are the same programs without a change. Without --driver, the system's.
# Some tests only give the forbidden time to happen, which a busy machine may need
# for something else: a mutant has survived only where it passes TRIES times.
set -uo pipefail

TRIES=10
options=()
controls=()
mutants=()
for word in "$@"; do
    case $word in
    --driver=* | --standin-driver-version=*) options+=("$word") ;;
    --control=*) controls+=("${word#*=}") ;;
    *=*) mutants+=("$word") ;;
    *)
        printf 'mutants.sh: unknown argument %s\n' "$word" >&2
        exit 2
        ;;
    esac
done
log=${TEST_TMPDIR:-$(mktemp -d)}/log
failures=0

fail() {
    printf 'FAILED  %s\n' "$1"
    cat "$log"
    failures=$((failures + 1))
}

# $1: program; $2: filter. Its output goes to the log, and what the shell says
# about a program that was ended by a signal.
run() {
    { "$1" "${options[@]}" --gtest_brief=0 --gtest_filter="$2"; } >"$log" 2>&1
}

# What a program without a change says of a test that it has.
passes() {
    local control
    for control in "${controls[@]}"; do
        run "$control" "$1" || return
        grep -q '^\[       OK \]' "$log" && return
    done
    false
}

for mutant in "${mutants[@]}"; do
    program=${mutant%%=*}
    filter=${mutant#*=}
    name=${program##*/}
    if ! passes "$filter"; then
        fail "$name: without the change, $filter does not pass"
        continue
    fi
    for ((try = 1; try <= TRIES; try++)); do
        run "$program" "$filter"
        status=$?
        [ "$status" = 0 ] || break
    done
    # 1: a test failed; above 128: a signal, the watchdog's if it was stuck.
    if [ "$status" = 1 ] && grep -q '^\[  FAILED  \]' "$log"; then
        printf 'killed  %s by %s\n' "$name" "$filter"
    elif [ "$status" -gt 128 ]; then
        printf 'killed  %s by %s, status %d\n' "$name" "$filter" "$status"
    else
        fail "$name survived $filter, status $status"
    fi
done

printf '%d mutants, %d failed\n' "${#mutants[@]}" "$failures"
[ "$failures" = 0 ] && [ "${#mutants[@]}" -gt 0 ]
