#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The benchmark of host arenas on the stand-in: every measurement has its row,
# what fails or cannot be measured says so, and the budget is kept. Not how long
# anything takes.
set -u
. tests/gates/expect.sh

host=bench/host/host
scratch=$(mktemp -d "${TEST_TMPDIR:-/tmp}/host.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST MOIETY_CONF \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY
small=(--driver=standin --block-mib=1 --cell-ms=2 --workers=2 --start-mib=8,4
    '--commit=of a test')

# The interpreter without what is installed: there are no peers, wherever this
# runs.
cat >"$scratch/python" <<'END'
#!/bin/sh
exec python3 -I -S "$@"
END
chmod +x "$scratch/python"

# More time than a sanitizer takes on a busy machine.
all_rows() {
    local status
    "$host" "${small[@]}" --repeats=2 --budget=4000 \
        --python="$scratch/python" >"$scratch/rows"
    status=$?
    python3 tests/bench/check_host.py 2 8,4 peers <"$scratch/rows" &&
        [ "$status" = 0 ]
}

# $1: exit status; $2: words that its rows must hold; the rest: the command.
# One that hangs is killed after twenty minutes and fails.
ends() {
    local code=$1 words=$2 actual
    shift 2
    timeout -k 1 1200 "$@" >"$scratch/out" 2>"$scratch/errors"
    actual=$?
    cat "$scratch/out" "$scratch/errors"
    [ "$actual" = "$code" ] && grep -qF -e "$words" "$scratch/out"
}

# A row may hold any text: it is JSON all the same.
commit_is_quoted() {
    "$host" "${small[@]}" --repeats=1 --part=waste --commit='a "b\c"' |
        python3 -c '
import json, sys
assert json.loads(next(sys.stdin))["commit"] == "a \"b\\c\""
'
}

# $1: a part. Nothing but it, and what the run is of.
only() {
    "$host" "${small[@]}" --repeats=1 --part="$1" | python3 -c '
import json, sys
kinds = {json.loads(line)["what"] for line in sys.stdin}
assert kinds == {"run", sys.argv[1]}, kinds
' "$1"
}

expect_ok "every measurement" all_rows
expect_ok "texts are quoted" commit_is_quoted
expect_ok "one part" only bandwidth

# What fails has a row; the rest is measured.
one=(env "MOIETY_STANDIN_FAULTS=cuMemHostAlloc:nth=1:code=2" "$host"
    "${small[@]}" --repeats=1)
expect_ok "no pinned memory for a staging buffer" ends 1 \
    '"subject":"driver","process":0,"size_bytes":65536,"skipped":null,"error":"cuMemHostAlloc' \
    "${one[@]}" --part=staging
expect_ok "and the others are measured" grep -q \
    '"subject":"register".*"ns_median".*"error":null' "$scratch/out"
expect_ok "no pinned memory for copies" ends 1 \
    '"subject":"driver","process":0,"size_bytes":1048576,"direction":"h2d","skipped":null,"error":"cuMemHostAlloc' \
    "${one[@]}" --part=bandwidth
expect_ok "no pinned memory for the pipeline" ends 1 \
    '"what":"pipeline","subject":null,"process":0,"skipped":null,"error":"cuMemHostAlloc' \
    "${one[@]}" --part=pipeline
expect_ok "no pinned memory at the start" ends 1 \
    '"subject":"driver","process":0,"size_bytes":8388608,"skipped":null,"error":"cuMemHostAlloc' \
    "${one[@]}" --part=start
expect_ok "an arena that grows in vain" ends 1 \
    '"subject":"arena_done","process":0,"size_bytes":65536,"skipped":null,"error":"cuMemHostRegister' \
    env "MOIETY_STANDIN_FAULTS=cuMemHostRegister:nth=1:code=1" "$host" \
    "${small[@]}" --repeats=1 --part=staging
expect_ok "a worker that fails" ends 1 ': cuEventSynchronize' \
    env "MOIETY_STANDIN_FAULTS=cuEventSynchronize:every=1:code=1" "$host" \
    "${small[@]}" --repeats=1 --part=pipeline
expect_ok "is named" grep -q '"subject":"arena_paced".*"error":"worker [01]: ' \
    "$scratch/out"
expect_ok "no driver" ends 1 '"what":"run","subject":null,"process":0,"skipped":null,"error":"' \
    "$host" --driver=/no/such.so --repeats=1
expect_ok "more than there is" ends 0 '"skipped":"there are only ' \
    "$host" "${small[@]}" --repeats=1 --part=start --start-mib=1048576

# The scripts of peers.
cat >"$scratch/hangs" <<'END'
import time
print("a library that talks", flush=True)
# It hangs.
time.sleep(600)
END
echo 'import os; os.kill(os.getpid(), 9)' >"$scratch/dies"
echo 'raise SystemExit(7)' >"$scratch/refuses"
peers=("$host" "${small[@]}" --repeats=1 --part=peers --python=python3)
expect_ok "peers that hang" ends 1 "not done when the time was over and was killed" \
    "${peers[@]}" --part=peers,start --budget=8 --peers="$scratch/hangs"
expect_ok "leave no time for what comes after" grep -qF \
    '"what":"start","subject":null,"process":0,"skipped":"no time was left"' \
    "$scratch/out"
expect_ok "what else they print is no row" grep -qx "a library that talks" \
    "$scratch/errors"
expect_ok "peers that die" ends 1 "was ended by a signal" "${peers[@]}" \
    --peers="$scratch/dies"
expect_ok "peers that refuse" ends 1 "its process ended with status 7" \
    "${peers[@]}" --peers="$scratch/refuses"
expect_ok "no interpreter" ends 1 "did not start" "${peers[@]}" \
    --python=/no/such

expect_refusal "an unknown option" "--fast is not accepted" "$host" --fast
expect_refusal "an unknown part" 'no part is called "speed"' "$host" \
    --part=waste,speed
expect_refusal "a part of no name" 'no part is called ""' "$host" --part=
expect_refusal "no processes" "--repeats=0: accepted values are 1 to 100" \
    "$host" --repeats=0
expect_refusal "no number" "--cell-ms=2s: accepted values are" "$host" \
    --cell-ms=2s
expect_refusal "no size" "--start-mib=4,,8: accepted are" "$host" \
    --start-mib=4,,8
expect_refusal "too many sizes" "accepted are up to 8 numbers" "$host" \
    --start-mib=2,2,2,2,2,2,2,2,2
expect_ok "help" ends 0 "usage: host" "$host" --help
finish
