#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# none_false_test.sh ARGUMENT...: with these no failure is false. Each shard has
# random numbers of its own.
[ -z "${TEST_SHARD_STATUS_FILE:-}" ] || touch "$TEST_SHARD_STATUS_FILE"
seed=$((1 + ${TEST_SHARD_INDEX:-0} * 1000000))
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_CONF MOIETY_STANDIN_COST \
    MOIETY_STANDIN_FAULTS MOIETY_STANDIN_MEMORY
exec tests/oom/oracle/oracle --driver="$PWD/pool/standin/libcuda.so.1" \
    --seed="$seed" "$@"
