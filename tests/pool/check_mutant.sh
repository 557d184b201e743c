#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_mutant.sh PROGRAM TEST: the test must fail in a program whose pool has
# one change for the worse. PROGRAM is that test's, all else is the same. Threads
# may have to meet for it to fail, and on a busy machine they may miss one another:
# a mutant survives only where it passes TRIES times.
set -u

TRIES=10
program=$1
test=$2
for ((try = 1; try <= TRIES; try++)); do
    output=$("$program" --gtest_filter="$test" 2>&1)
    status=$?
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
