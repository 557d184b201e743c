#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# measure.sh FOLDER COMMIT OUT.jsonl
#
# Measures the rows of performance-*.jsonl on this machine's GPU, by the programs
# bench, replay and limit in FOLDER and the traces in FOLDER/traces (gunzip -k
# bench/traces/*.gz). Of the allocators of others, those that cannot run
# here are left out: MOIETY_TORCH_SHIM, MOIETY_RMM_SHIM (bench/subjects/shims), and
# mimalloc. About five minutes; SECONDS_OF_BENCH bounds the longest part.
# MOIETY_DRIVER=standin tries it.
set -uo pipefail

[ $# -eq 3 ] || {
    echo "usage: measure.sh FOLDER COMMIT OUT.jsonl" >&2
    exit 2
}
folder=$1
commit=$2
out=$3
driver=--driver=${MOIETY_DRIVER:-cuda}
budget=${SECONDS_OF_BENCH:-150}
cell=${CELL_US:-200000}
: >"$out" || exit 1
status=0

# A program's rows, and what it says if it fails.
rows() {
    local name=$1
    shift
    "$folder/$name" "$driver" --commit="$commit" "$@" >>"$out" 2>"$out.errors" || {
        echo "measure: $name $*: status $?: $(tail -1 "$out.errors")" >&2
        status=1
    }
    rm -f "$out.errors"
}

# The subjects of a list that can run here: status 3 says that one cannot.
here() {
    local found= one
    for one in "$@"; do
        case $one in
        torch | rmm-* | mimalloc)
            "$folder/bench" "$driver" --subject="$one" --workload=pair --threads=1 \
                --repeats=1 --cell-us=1000 >/dev/null 2>&1
            [ $? != 3 ] || continue
            ;;
        esac
        found=$found${found:+,}$one
    done
    echo "$found"
}

for trace in gpt gpt-checkpointed train train-checkpointed serving server frame; do
    rows replay --lag=idle --repeats="${REPEATS:-2}" \
        --subject="$(here moiety moiety-mapped best-fit best-fit-expandable cuda-async \
            rmm-pool rmm-arena)" "$folder/traces/$trace.mtrace"
done
rows limit --part=limits --subject=moiety,moiety-mapped,best-fit,best-fit-expandable \
    --threads=16 --repeats="${REPEATS:-2}" --pairs="${PAIRS:-10000}"
rows bench --workload=pair,mixed,rmm-random --threads=1,4,16 --repeats="${REPEATS:-2}" \
    --subject="$(here moiety moiety_mapped mimalloc cuda_async torch rmm-pool rmm-arena \
        mutex)" --cell-us="$cell" --budget="$budget"
rows bench --workload=mixed,rmm-random --threads=4,16 --streams=1 \
    --repeats="${REPEATS:-2}" --subject="$(here moiety moiety_mapped torch rmm-pool mutex)" \
    --cell-us="$cell" --budget="$((budget / 2))"
grep -q '^{' "$out" || status=1
exit "$status"
