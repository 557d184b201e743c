#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [RESULTS]
#
# Runs the GPU tests of this folder on this host; needs a driver and nothing
# else. First come the facts about the host: hosts differ in what they allow,
# and what is refused here has not been tested here. With RESULTS, a folder,
# the output of each program is kept there as well.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
results=${1:-}
if [ -n "$results" ]; then
    mkdir -p "$results" || exit 1
    results=$(cd "$results" && pwd)
fi

# Standard input goes to the screen, and to the file $1 of the results.
keep() {
    if [ -n "$results" ]; then
        tee "$results/$1"
    else
        cat
    fi
}

# A skip is a failure, and so is a stand-in.
export MOIETY_REQUIRE_GPU=1
unset MOIETY_DRIVER
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cd "$here" || exit 1

passed=0
failed=0
for facts in facts/*; do
    "$facts" 2>&1 | keep facts.txt || echo "run.sh: $facts failed"
done
for program in tests/*; do
    name=${program##*/}
    echo "run.sh: === $name"
    if "$program" 2>&1 | keep "$name.log"; then
        echo "run.sh: $name passed"
        passed=$((passed + 1))
    else
        echo "run.sh: $name FAILED"
        failed=$((failed + 1))
    fi
done
printf '%d passed, %d failed\n' "$passed" "$failed" | keep summary.txt
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
