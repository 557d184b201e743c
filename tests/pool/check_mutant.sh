#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_mutant.sh PROGRAM TEST: the test must fail in a program whose pool has
# one change for the worse. PROGRAM is that test's, all else is the same. Threads
# may have to meet for it to fail, and on a busy machine they may miss one another:
# a mutant survives only where it passes TRIES times. One that hangs fails, too: the
# test without the change takes a second, and a slow machine makes no mutant survive.
set -u

TRIES=10
HANGS_S=15
program=$1
test=$2
for ((try = 1; try <= TRIES; try++)); do
    output=$(timeout -k 1 "$HANGS_S" "$program" --gtest_filter="$test" 2>&1)
    status=$?
    if [ $status -eq 124 ]; then
        echo "$test hangs, as a test that fails may"
        exit 0
    fi
    if [ $status -eq 1 ] && [[ $output == *"[  FAILED  ] $test"* ]]; then
        echo "$test fails as it should"
        exit 0
    fi
    if [ $status -gt 128 ]; then
        echo "$test ends by a signal, as a test that fails may"
        exit 0
    fi
    [ $status -eq 0 ] || break
done
printf 'FAILED: %s did not make %s fail:\n%s\n' "$program" "$test" "$output"
exit 1
