#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the conformance test on a driver, and refuses a run that checked little.
#   run_conformance.sh BINARY MINIMUM_CHECKS [DRIVER_FILE]
# Without a file, the system's driver; a machine that has none skips, unless
# MOIETY_REQUIRE_GPU=1.
set -eu

binary=$1
minimum=$2
if [ $# -ge 3 ]; then
    MOIETY_DRIVER=$PWD/$3
    # A GPU has memory pools; the stand-in has them when asked.
    MOIETY_STANDIN_MEMORY_POOLS=1
    export MOIETY_DRIVER MOIETY_STANDIN_MEMORY_POOLS
else
    unset MOIETY_DRIVER
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
"$binary" >"$log" 2>&1 || status=$?
cat "$log"
[ "$status" -eq 0 ] || exit "$status"
if grep -q '\[  SKIPPED \] Driver.IsPresent' "$log"; then
    exit 0
fi
checks=$(sed -n 's/^conformance: \([0-9]*\) checks, 0 failed, .*/\1/p' "$log")
if [ "${checks:-0}" -lt "$minimum" ]; then
    echo "only ${checks:-0} checks were made, expected at least $minimum" >&2
    exit 1
fi
