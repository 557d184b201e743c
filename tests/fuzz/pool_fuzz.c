/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The model with its choices taken from the fuzzer's bytes. The corpus beside
 * this file is replayed by pool_replay_test; to look for more:
 *
 *     bazel run --config=fuzz //tests/fuzz:pool_fuzz -- DIR
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/pool_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct pool_model_input input = {
        .steps = POOL_MODEL_FUZZ_STEPS, .ops = data, .op_bytes = size};
    char message[POOL_MODEL_MESSAGE_BYTES];
    if (!pool_model_run(&input, message)) {
        (void)fprintf(stderr, "%s\n", message);
        abort();
    }
    return 0;
}
