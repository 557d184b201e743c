#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_model.sh MODEL.pml holds[:OPTION,...] ... broken:OPTION,... ...
#
# The model must hold with each set of options, its search complete, and must be
# found broken with each weakening. A switch of the model that no argument uses
# is a failure: a weakening that nobody tries catches nothing.
set -uo pipefail
. tests/gates/expect.sh
. tests/models/need_spin.sh

run=tests/models/run_model.sh
model=$1
shift

# Switches without a default of their own.
switches() {
    grep -E '^#.*(ifdef|ifndef|defined)' "$model" |
        grep -oE '\b[A-Z][A-Z_]+\b' | sort -u |
        grep -vxFf <(sed -n 's/^#define \([A-Z_]*\).*/\1/p' "$model")
}

is_caught() {
    MODEL_OPTIMISE=-O0 MODEL_SEARCH=-DP_RAND bash "$run" "$model" "$@"
    [ $? = 1 ]
}

for switch in $(switches); do
    expect_ok "$switch is tried" grep -qw -e "-D$switch" <<<"${*//,/ }"
done
for argument in "$@"; do
    IFS=, read -ra options <<<"${argument#*:}"
    case $argument in
    holds) expect_ok "holds" bash "$run" "$model" ;;
    holds:*) expect_ok "holds $argument" bash "$run" "$model" "${options[@]}" ;;
    broken:*) expect_ok "is caught: ${options[*]}" is_caught "${options[@]}" ;;
    *) expect_ok "an argument: $argument" false ;;
    esac
    printf '        %s\n' "$(grep -E 'states' <<<"$expect_output" | head -n 1)"
done
finish
