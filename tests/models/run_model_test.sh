#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What run_model.sh refuses, and that a search cut short is never "holds".
set -uo pipefail
. tests/gates/expect.sh
. tests/models/need_spin.sh

export MODEL_OPTIMISE=-O0
run=tests/models/run_model.sh
model=tests/models/epochs.pml
broken=$TEST_TMPDIR/broken.pml
printf 'init { assert(1) \n' >"$broken"

status_of() {
    "$@" >/dev/null 2>&1
    printf '%d' $?
}

expect_ok "a model that holds" bash "$run" "$model" -DROUNDS=1
expect_text "a model that is broken" 1 \
    "$(status_of bash "$run" "$model" -DNO_ROLE)"
expect_refusal "a search too shallow" "cut short" \
    env MODEL_DEPTH=50 bash "$run" "$model" -DROUNDS=1
expect_text "which is no verdict" 2 \
    "$(status_of env MODEL_DEPTH=50 bash "$run" "$model" -DROUNDS=1)"
expect_refusal "a search out of memory" "cut short" \
    env MODEL_MEMORY_MB=150 bash "$run" "$model" -DTURNS=3
expect_refusal "an unknown weakening" "does not know" \
    bash "$run" "$model" -DNOT_THERE
expect_refusal "an option of another kind" "is not -DNAME" \
    bash "$run" "$model" -run
expect_refusal "a model that is not there" "no model" bash "$run" none.pml
expect_refusal "a model that Spin cannot read" "spin refuses" \
    bash "$run" "$broken"
finish
