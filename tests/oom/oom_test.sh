#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# oom_test.sh SECONDS: the out-of-memory program on the stand-in, and what it
# says of bad arguments. OOM_SEED says which random numbers.
set -u
. tests/gates/expect.sh

seconds=$1
common=(--driver="$PWD/pool/standin/libcuda.so.1" --seed="${OOM_SEED:-1}")
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_CONF MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS

# expect CODE TEXT PROGRAM ARGUMENT...: the exit status, and a text that is
# printed.
expect() {
    expect_exit "$1" "$2" "tests/oom/$3" "${common[@]}" "${@:4}"
}

# Demand never above the limit: no failure. Of these sizes a block comes out of
# a chunk's word, out of a page's, and is a run.
for size in 4096 1048576 4194304; do
    expect 0 "0 failures, 0 unproved, 0 inexact" oom --run=fit --size="$size" \
        --threads=16 --limit=16 --seconds="$seconds"
done
# More than there is: every failure proves itself.
expect 0 " 0 unproved, " oom --run=over --threads=16 --seconds="$seconds"
expect 0 " 0 unproved, " oom --run=over --threads=16 --callbacks=1 \
    --seconds="$seconds"
# A pool that looks only once is found out, sooner or later.
if [ "$seconds" -ge 60 ]; then
    expect 1 "FAILED although all was within the limit" oom_hasty --run=fit \
        --size=1048576 --threads=16 --seconds="$seconds"
fi
expect 2 "--run=neither is not accepted" oom --run=neither
expect 2 "--free=never is not accepted" oom --free=never
expect 2 "--threads=0: accepted values are 1 to 256" oom --threads=0

finish
