#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the benchmarks do with subjects that hang, crash or take their time: the
# rest is measured, what was not is named, and the time that was given is kept.
# A program that waits for ever is killed here after ten minutes, and fails.
set -u

bench=bench/harness/bench
results=$(mktemp -d "${TEST_TMPDIR:-/tmp}/budget.XXXXXX")
trap 'rm -rf "$results"' EXIT
failures=0
unset MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST MOIETY_STANDIN_MEMORY_POOLS \
    MOIETY_STANDIN_FAULTS FAKE_SHIM FAKE_SHIM_SIZE
export MOIETY_DRIVER=standin MOIETY_TORCH_SHIM=$PWD/tests/bench/libfake_shim.so

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# expect CODE TEXT COMMAND...: the exit status, and a text that is printed.
expect() {
    local code=$1 text=$2 output actual
    shift 2
    output=$(timeout -k 1 600 "$@" 2>&1)
    actual=$?
    if [ "$actual" -ne "$code" ] || [[ $output != *"$text"* ]]; then
        fail "$*: exit status $actual (wanted $code), and not \"$text\" in:"
        echo "$output"
    fi
}

# rows FILE SUBJECT: size, processes and failure of its rows, a line each.
rows() {
    python3 -c '
import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    if row["subject"] == sys.argv[2]:
        number = row["ns_per_op_median"]
        assert (number is None) == (row["repeats"] == 0), row
        print(row["size_bytes"], row["repeats"], row["failure"])
' "$1" "$2"
}

# expect_rows FILE SUBJECT LINE...: nothing but these.
expect_rows() {
    local file=$1 subject=$2 actual wanted
    shift 2
    actual=$(rows "$file" "$subject" 2>&1)
    wanted=$(printf '%s\n' "$@")
    [ "$actual" = "$wanted" ] ||
        fail "$subject in $file: not \"$wanted\" but \"$actual\""
}

common=(--workload=pair --threads=1 --size=512,777,1024 --repeats=2
    --cell-us=2000 --json="$results/out.json")

# A subject that does all it is asked for.
expect 0 "" "$bench" "${common[@]}" --budget=50 --subject=torch,null
expect_rows "$results/out.json" torch "512 2 None" "777 2 None" "1024 2 None"

# A call that does not return: its cell alone is lost, and is tried once.
export FAKE_SHIM_SIZE=777
killed="it took too long and was killed"
expect 1 "torch, pair, 1 threads, 777 bytes: $killed" \
    env FAKE_SHIM=hang-alloc "$bench" "${common[@]}" --budget=12 \
    --subject=torch,null
expect_rows "$results/out.json" torch "512 2 None" "777 0 $killed" "1024 2 None"
expect_rows "$results/out.json" null "512 2 None" "777 2 None" "1024 2 None"

count=$(FAKE_SHIM=hang-alloc "$bench" "${common[@]}" --budget=30 \
    --subject=torch 2>&1 | grep -c "the process that ran torch: $killed")
[ "$count" = 1 ] || fail "the call that does not return was tried $count times"

# The same with less time than that takes: it ends all the same.
expect 1 "no time was left" env FAKE_SHIM=hang-alloc "$bench" "${common[@]}" \
    --budget=2 --subject=torch
# A busy machine may not even measure the first.
sed -i 's/"repeats":1/"repeats":0/; s/"ns_per_op_median":[^,]*/"ns_per_op_median":null/' \
    "$results/out.json"
expect_rows "$results/out.json" torch "512 0 no time was left" \
    "777 0 no time was left" "1024 0 no time was left"

# A call that ends the process, and a subject that does not start.
ended="its process was ended by a signal or did not start"
expect 1 "torch, pair, 1 threads, 777 bytes: $ended" \
    env FAKE_SHIM=crash-alloc "$bench" "${common[@]}" --budget=50 \
    --subject=torch
expect_rows "$results/out.json" torch "512 2 None" "777 0 $ended" "1024 2 None"
expect 1 "the process that ran torch: $killed" env FAKE_SHIM=hang-start \
    "$bench" "${common[@]}" --budget=8 --subject=torch,null
expect_rows "$results/out.json" torch "512 0 $killed" "777 0 $killed" \
    "1024 0 $killed"
expect_rows "$results/out.json" null "512 2 None" "777 2 None" "1024 2 None"

# What is no fault of the time.
expect 1 "torch, pair, 1 threads, 777 bytes: out of memory" \
    env FAKE_SHIM=no-memory "$bench" "${common[@]}" --budget=50 --subject=torch
expect_rows "$results/out.json" torch "512 2 None" "777 0 out of memory" \
    "1024 2 None"
expect 1 "the subject refuses a thread" env FAKE_SHIM=no-attach "$bench" \
    "${common[@]}" --budget=50 --subject=torch
expect 3 "torch cannot run here: the fake refuses" env FAKE_SHIM=refuse \
    "$bench" "${common[@]}" --budget=50 --subject=torch
expect 3 "torch cannot run here: MOIETY_TORCH_SHIM names no library" \
    env -u MOIETY_TORCH_SHIM "$bench" "${common[@]}" --subject=torch
expect 3 "torch cannot run here: /no/such.so" \
    env MOIETY_TORCH_SHIM=/no/such.so "$bench" "${common[@]}" --subject=torch
expect 3 "names is no such shim" env MOIETY_TORCH_SHIM=libc.so.6 "$bench" \
    "${common[@]}" --subject=torch

# start: in the background, until its first cell is measured and the next one
# hangs.
start() {
    rm -f "$results/out.json.raw.jsonl"
    FAKE_SHIM=hang-alloc "$bench" "${common[@]}" --budget=600 \
        --subject=torch 2>/dev/null &
    running=$!
    until [ -s "$results/out.json.raw.jsonl" ]; do sleep 0.1; done
}

# Ended from outside while a call hangs: what was measured is there, once in
# the raw rows and once in the results.
start
kill -TERM "$running"
wait "$running"
code=$?
[ "$code" = 4 ] || fail "after SIGTERM the exit status is $code"
expect_rows "$results/out.json" torch "512 1 None"
expect_rows "$results/out.json.raw.jsonl" torch "512 1 None"

# Killed, it can write nothing more; nothing of it stays behind.
start
child=$(pgrep -P "$running")
kill -KILL "$running"
wait "$running" 2>/dev/null
expect_rows "$results/out.json.raw.jsonl" torch "512 1 None"
for _ in {1..1000}; do
    [ -d "/proc/$child" ] || break
    sleep 0.1
done
[ ! -d "/proc/$child" ] || fail "the process that measures outlives the other"

[ "$failures" -eq 0 ] && echo "the budget is kept"
exit "$failures"
