#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a pool wastes, on the stand-in, whose memory is there only where it is
# touched: the bounds that are promised, and what the program refuses.
set -u
. tests/gates/expect.sh

waste=bench/studies/waste
results=$(mktemp -d "${TEST_TMPDIR:-/tmp}/waste.XXXXXX")
trap 'rm -rf "$results"' EXIT
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY MOIETY_CONF

expect_exit 0 "| 1 MiB to 2 MiB | " "$waste" --driver=standin \
    --json="$results/waste.json"
expect_exit 0 " 0 failures" python3 tests/bench/studies/check_waste.py "$results/waste.json"
expect_exit 0 "| 4294967296 | 4294967296 | 0.00 % | 4294967296 | 0.00 % |" \
    "$waste" --driver=standin --all

expect_exit 0 "usage: waste" "$waste" --help
expect_exit 2 "--fast is not accepted; --help says what is" "$waste" --fast
expect_exit 2 "--json= is not accepted" "$waste" --json=
expect_exit 1 "waste: --json: No such file" "$waste" --json="$results/no/file"
expect_exit 1 "MOIETY_DRIVER=/no/such.so" "$waste" --driver=/no/such.so
expect_exit 1 "moiety_alloc: MOIETY_E_" env MOIETY_STANDIN_MEMORY=64MiB "$waste" \
    --driver=standin

finish
