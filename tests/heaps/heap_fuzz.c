/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The model with its choices taken from the fuzzer's bytes. heap_test replays the
 * corpus beside this file; to look for more:
 *
 *     bazel run --config=fuzz //tests/heaps:heap_fuzz -- DIR
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/heaps/model.h"

#define STEPS_MAX 2000U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct heap_model_input input = {
        .steps = STEPS_MAX, .ops = data, .op_bytes = size};
    char message[HEAP_MODEL_MESSAGE_BYTES];
    if (!heap_model_run(&input, message)) {
        (void)fprintf(stderr, "%s\n", message);
        abort();
    }
    return 0;
}
