#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ipc_test.sh PROGRAM STANDIN
#
# The program that measures sharing runs through on the stand-in, says so, and
# has a figure for each call. What the figures are is not judged.
set -euo pipefail

program=$PWD/$1
unset MOIETY_CONF MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST MOIETY_STANDIN_FAULTS
output=$(MOIETY_DRIVER=$PWD/$2 "$program")
printf '%s\n' "$output"
python3 - "$output" <<'END'
import json
import sys

rows = [json.loads(line) for line in sys.argv[1].splitlines()]
calls = {row["call"] for row in rows}
assert len(calls) == len(rows) == 8, calls
for row in rows:
    assert row["standin"] is True, row
    assert 0 < row["least_ns"] <= row["median_ns"] <= row["most_ns"], row
END
