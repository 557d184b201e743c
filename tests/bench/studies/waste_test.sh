#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a pool wastes, on the stand-in, whose memory is there only where it is
# touched: the bounds that are promised, and what the program refuses.
set -u

waste=bench/studies/waste
results=$(mktemp -d "${TEST_TMPDIR:-/tmp}/waste.XXXXXX")
trap 'rm -rf "$results"' EXIT
failures=0
unset BINADE_DRIVER BINADE_REQUIRE_GPU BINADE_STANDIN_COST \
    BINADE_STANDIN_FAULTS BINADE_STANDIN_MEMORY BINADE_CONF

# expect CODE TEXT COMMAND...: the exit status, and a text that is printed.
expect() {
    local code=$1 text=$2 output actual
    shift 2
    output=$("$@" 2>&1)
    actual=$?
    if [ "$actual" -ne "$code" ] || [[ $output != *"$text"* ]]; then
        echo "FAILED: $*: exit status $actual (wanted $code), and not" \
            "\"$text\" in:"
        echo "$output"
        failures=$((failures + 1))
    fi
}

expect 0 "| 1 MiB to 2 MiB | " "$waste" --driver=standin \
    --json="$results/waste.json"
expect 0 " 0 failures" python3 tests/bench/studies/check_waste.py "$results/waste.json"
expect 0 "| 4294967296 | 4294967296 | 0.00 % | 4294967296 | 0.00 % |" \
    "$waste" --driver=standin --all

expect 0 "usage: waste" "$waste" --help
expect 2 "--fast is not accepted; --help says what is" "$waste" --fast
expect 2 "--json= is not accepted" "$waste" --json=
expect 1 "waste: --json: No such file" "$waste" --json="$results/no/file"
expect 1 "BINADE_DRIVER=/no/such.so" "$waste" --driver=/no/such.so
expect 1 "binade_alloc: BINADE_E_" env BINADE_STANDIN_MEMORY=64MiB "$waste" \
    --driver=standin

[ "$failures" -eq 0 ] && echo "no more is wasted than is promised"
exit "$failures"
