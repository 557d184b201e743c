#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The benchmarks as a program: every subject that runs anywhere on every
# workload, on the stand-in, for a moment; what is written, and what is refused.
# No number is judged by its size.
set -u
. tests/gates/expect.sh

bench=bench/harness/bench
check=tests/bench/check_results.py
results=$(mktemp -d "${TEST_TMPDIR:-/tmp}/bench.XXXXXX")
trap 'rm -rf "$results"' EXIT
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST \
    MOIETY_STANDIN_MEMORY_POOLS MOIETY_STANDIN_FAULTS

# names TITLE: the names under this title in --list.
names() {
    "$bench" --list | awk -v title="$1:" '
        !/^ / { is_ours = $1 == title; next } is_ours { print $1 }'
}

mapfile -t workloads < <(names workloads)
mapfile -t subjects < <(names subjects)
[ "${#workloads[@]}" -gt 0 ] && [ "${#subjects[@]}" -gt 0 ] || {
    echo "FAILED: --list names nothing"
    exit 1
}

# Everything, but for the subjects that have to be installed, the driver's
# pool, of which the stand-in's slow imitation takes minutes, and the largest
# working sets.
runnable=()
for subject in "${subjects[@]}"; do
    case $subject in
    mimalloc | torch | rmm-* | cuda_async) ;;
    *) runnable+=("$subject") ;;
    esac
done
most=()
for workload in "${workloads[@]}"; do
    case $workload in
    occupancy100000* | pair100000*) ;;
    *) most+=("$workload") ;;
    esac
done
joined() {
    local IFS=,
    echo "$*"
}
expect_exit 0 "" "$bench" --driver=standin --subject="$(joined "${runnable[@]}")" \
    --workload="$(joined "${most[@]}")" --threads=2 --repeats=2 --budget=9000 \
    --cell-us=2000 --json="$results/all.json"
expect_exit 0 " 0 failures" python3 "$check" "$results/all.json" 2 \
    "${most[@]}" -- "${runnable[@]}"
large=(occupancy100000 pair1000000)
expect_exit 0 "" "$bench" --subject=core,null --workload="$(joined "${large[@]}")" \
    --threads=1 --repeats=1 --budget=300 --cell-us=2000 \
    --json="$results/large.json"
expect_exit 0 "4 measurements, 0 failures" python3 "$check" \
    "$results/large.json" 1 "${large[@]}" -- core null
few=(pair mixed prodcons streams)
expect_exit 0 "" env MOIETY_STANDIN_MEMORY_POOLS=1 "$bench" --driver=standin \
    --subject=cuda_async --workload="$(joined "${few[@]}")" --threads=2 \
    --repeats=2 --budget=300 --cell-us=2000 --json="$results/async.json"
expect_exit 0 "4 measurements, 0 failures" python3 "$check" \
    "$results/async.json" 2 "${few[@]}" -- cuda_async

# What a user gets who names nothing.
expect_exit 0 "streams " "$bench" --list
expect_exit 0 "over 1000 streams *" "$bench" --list

# What a run of few cells says of itself.
one=(--workload=pair --threads=1 --repeats=1 --cell-us=2000)
expect_exit 0 '"simulated_costs":true' env MOIETY_STANDIN_COST=h200 "$bench" \
    "${one[@]}" --driver=standin --subject=cuda_malloc
expect_exit 0 '"commit":"v1 \"x\\y\""' "$bench" "${one[@]}" --subject=null \
    '--commit=v1 "x\y"'
expect_exit 0 '"size_bytes":512,' "$bench" "${one[@]}" --subject=null \
    --size=512,1KiB --seed=7
expect_exit 0 '"seed":7' "$bench" "${one[@]}" --subject=null --seed=7
expect_exit 0 '"repeats":5' "$bench" --workload=pair --threads=1 \
    --cell-us=2000 --subject=null
expect_exit 0 '"cell_us":2000,' "$bench" "${one[@]}" --subject=null
expect_exit 0 "$results/here.json: 1 measurements, 0 failures" bash -c \
    'cd / && BUILD_WORKING_DIRECTORY=$1 "$0" --json=here.json "${@:4}" &&
    python3 "$2" "$3" 1 pair -- null' "$PWD/$bench" "$results" \
    "$PWD/$check" "$results/here.json" "${one[@]}" --subject=null

# A device that lags, in subjects that keep the order of streams.
for lag in work:5 fill:1+sync:8 held; do
    expect_exit 0 "\"lag\":\"$lag\"" "$bench" --driver=standin --lag="$lag" \
        --subject=moiety --workload=pair,mixed,rmm-random --threads=2 \
        --repeats=1 --cell-us=2000
done
expect_exit 0 '"lag":"idle"' "$bench" "${one[@]}" --subject=null
expect_exit 3 "null cannot run here: it keeps no order of streams" "$bench" \
    "${one[@]}" --subject=null --lag=held
expect_exit 2 "--lag=busy: accepted is one of idle, held" "$bench" --lag=busy
expect_exit 2 "--lag=idle,held: accepted is one of idle" "$bench" --lag=idle,held

# Names and numbers that there are not, each with those that there are.
expect_exit 2 "no workload is called \"pear\"; there are: ${workloads[*]}" \
    "$bench" --workload=pair,pear
expect_exit 2 "no subject is called \"jemalloc\"; there are: ${subjects[*]}" \
    "$bench" --subject=jemalloc
expect_exit 2 "--threads=0: accepted values are 1 to 256" "$bench" --threads=1,0
for size in x GiB 1Gib 1GiBx 0KiB 2MiB 9999999999999TiB; do
    expect_exit 2 "--size=$size: accepted values are 1 to 1048576, or with a unit" \
        "$bench" --size="$size"
done
expect_exit 2 "--budget=1e9: accepted values" "$bench" --budget=1e9
expect_exit 2 "--budget=0: accepted values are 1 to 86400" "$bench" --budget=0
expect_exit 2 "--repeats=-1: accepted values" "$bench" --repeats=-1
expect_exit 2 "--cell-us=999: accepted values are 1000 to" "$bench" --cell-us=999
expect_exit 2 "--workload= names nothing" "$bench" --workload=
expect_exit 2 "--driver= names no driver" "$bench" --driver=
expect_exit 2 "--fast is not accepted; --help says what is" "$bench" --fast
expect_exit 2 "--worklod=x is not accepted, did you mean --workload?; --help" \
    "$bench" --worklod=x
expect_exit 0 "usage: bench" "$bench" --help
expect_exit 1 "--json=$results/no/file: No such file" "$bench" "${one[@]}" \
    --subject=null --json="$results/no/file"

# Subjects that cannot run: an error if named, a word if not.
expect_exit 3 "cuda_async cannot run here: the stand-in has no memory pools unless" \
    "$bench" "${one[@]}" --driver=standin --subject=cuda_async
expect_exit 3 "cuda_malloc cannot run here: MOIETY_DRIVER=/no/such.so" "$bench" \
    "${one[@]}" --driver=/no/such.so --subject=cuda_malloc
expect_exit 0 "cuda_malloc cannot run here: MOIETY_DRIVER=/no/such.so" "$bench" \
    "${one[@]}" --driver=/no/such.so
if ! grep -q 'libmimalloc\.so\.2 ' <(ldconfig -p); then
    expect_exit 3 "mimalloc cannot run here: libmimalloc.so.2 is not installed" \
        "$bench" "${one[@]}" --subject=mimalloc
fi
expect_exit 1 "nothing was measured" "$bench" --workload=prodcons --threads=1 \
    --subject=null --repeats=1

# A cell that fails says which.
expect_exit 1 "cuda_malloc, pair, 1 threads, 65536 bytes: out of memory" env \
    MOIETY_STANDIN_FAULTS=cuMemAlloc:nth=9:code=2 "$bench" "${one[@]}" \
    --driver=standin --subject=cuda_malloc

finish
