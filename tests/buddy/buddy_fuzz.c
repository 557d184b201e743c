/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The model with its choices taken from the fuzzer's bytes. The corpus beside
 * this file is replayed by buddy_replay_test; to look for more:
 *
 *     bazel run --config=fuzz //tests/buddy:buddy_fuzz -- DIR
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/buddy/model.h"

#define STEPS_MAX 2000U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct buddy_model_input input = {
        .steps = STEPS_MAX, .ops = data, .op_bytes = size};
    char message[BUDDY_MODEL_MESSAGE_BYTES];
    if (!buddy_model_run(&input, message)) {
        (void)fprintf(stderr, "%s\n", message);
        abort();
    }
    return 0;
}
