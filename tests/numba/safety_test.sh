#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# safety.py on the stand-in: moiety.numba has to pass, and what reuses memory
# too early has to be seen.
#
# usage: safety_test.sh SITE_FILE PLANTED_SITE_FILE DRIVER_FILE
#   files of //emm:site/moiety, //emm:site_planted/moiety and the stand-in
set -u

here=${0%/*}
failures=0

# check MANAGER SITE_FILE ROUNDS
check() {
    PYTHONPATH=$PWD/${2%/moiety/*} "$here/numba_memory_test.sh" \
        "$here/safety.py" --standin --manager="$1" --rounds="$3" && return
    echo "FAILED: $1, exit status $?"
    failures=$((failures + 1))
}

export LD_LIBRARY_PATH=$PWD/${3%/*} # by which numba finds the driver
check plugin "$1" 2000
check planted "$2" 1000
check immediate "$1" 1000
exit "$failures"
