#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# none_false_test.sh ARGUMENT...: with these no failure is false. Each shard has
# random numbers of its own.
[ -z "${TEST_SHARD_STATUS_FILE:-}" ] || touch "$TEST_SHARD_STATUS_FILE"
seed=$((1 + ${TEST_SHARD_INDEX:-0} * 1000000))
unset BINADE_DRIVER BINADE_REQUIRE_GPU BINADE_CONF BINADE_STANDIN_COST \
    BINADE_STANDIN_FAULTS BINADE_STANDIN_MEMORY
exec tests/oom/oracle/oracle --driver="$PWD/pool/standin/libcuda.so.1" \
    --seed="$seed" "$@"
