#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_mutant.sh PROGRAM TEST: the test must fail in a program whose pool has
# one change for the worse. PROGRAM is that test's, all else is the same. One that
# hangs fails, too: the test without the change takes seconds.
set -u

program=$1
test=$2
output=$(timeout -k 1 40 "$program" --gtest_filter="$test" 2>&1)
status=$?
if [ $status -eq 124 ]; then
    echo "$test hangs, as a test that fails may"
    exit 0
fi
if [ $status -eq 1 ] && [[ $output == *"[  FAILED  ] $test"* ]]; then
    echo "$test fails as it should"
    exit 0
fi
printf 'FAILED: %s did not make %s fail:\n%s\n' "$program" "$test" "$output"
exit 1
