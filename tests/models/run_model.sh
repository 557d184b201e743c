#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run_model.sh MODEL.pml [-DNAME[=VALUE] ...]
#
# Searches every state of a model and prints one line: what was run, how many
# states, how deep, how long, and whether the model holds.
#
#   0  it holds, and the search was complete
#   1  it is broken; MODEL_TRAIL=1 prints the steps that lead there
#   2  cannot tell: a bad argument, no Spin, or a search that was cut short
#
# MODEL_DEPTH (steps) and MODEL_MEMORY_MB bound the search. MODEL_OPTIMISE=-O0
# compiles it faster where few states are expected. MODEL_SEARCH has options for
# the search: -DCOLLAPSE halves its memory and takes half as long again, -DP_RAND
# tries the processes in any order, which finds an error sooner.
set -uo pipefail

cannot_tell() {
    printf 'run_model: %s\n' "$*" >&2
    exit 2
}

[ $# -ge 1 ] || cannot_tell "usage: run_model.sh MODEL.pml [-DNAME[=VALUE]...]"
model=$1
shift
[ -f "$model" ] || cannot_tell "no model $model"
for option in "$@"; do
    [[ $option =~ ^-D([A-Z_]+)(=[0-9]+)?$ ]] ||
        cannot_tell "$option is not -DNAME or -DNAME=NUMBER"
    grep -qE "^#.*\b${BASH_REMATCH[1]}\b" "$model" ||
        cannot_tell "$model does not know ${BASH_REMATCH[1]}"
done
command -v spin >/dev/null || cannot_tell "spin is not installed"

work=$(mktemp -d "${TEST_TMPDIR:-${TMPDIR:-/tmp}}/model.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
cp "$model" "$work/model.pml" || exit 2
cd "$work" || exit 2

# Spin reports errors on standard output, and not always by its exit status.
spin "$@" -a model.pml >spin.log 2>&1 && ! grep -q Error spin.log ||
    cannot_tell "spin refuses $model: $(cat spin.log)"
# shellcheck disable=SC2086 # one word for each option
"${CC:-cc}" "${MODEL_OPTIMISE:--O1}" -w -DSAFETY ${MODEL_SEARCH:-} \
    -DVECTORSZ=512 -DMEMLIM="${MODEL_MEMORY_MB:-3000}" -o pan pan.c 2>cc.log ||
    cannot_tell "the search does not compile: $(cat cc.log)"
begun=$(date +%s%N)
./pan -m"${MODEL_DEPTH:-10000}" >pan.log 2>&1
spent=$((($(date +%s%N) - begun) / 10000000))

number_before() {
    sed -n "s/^ *\([0-9][0-9]*\) $1.*/\1/p" pan.log | head -n 1
}
errors=$(sed -n 's/.*, errors: \([0-9]*\)$/\1/p' pan.log)
states=$(number_before 'states, stored')
depth=$(sed -n 's/.*depth reached \([0-9]*\),.*/\1/p' pan.log)
[ -n "$errors" ] && [ -n "$states" ] ||
    cannot_tell "the search of $model broke off: $(cat pan.log)"

printf '%s%s: %s states, depth %s, %d.%02d s: ' "${model##*/}" "${*:+ $*}" \
    "$states" "$depth" $((spent / 100)) $((spent % 100))
if [ "$errors" != 0 ]; then
    printf 'broken: %s\n' "$(sed -n 's/^pan:[0-9]*: //p' pan.log | head -n 1)"
    [ -z "${MODEL_TRAIL:-}" ] || spin "$@" -t -p -g -l model.pml
    exit 1
fi
if grep -qE "Search not completed|search depth too small|out of memory" \
    pan.log; then
    printf 'cut short\n'
    exit 2
fi
printf 'holds\n'
