/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Random calls of the public interface, by one thread, on streams some of which
 * are held back; each is repeated in a ledger, which knows what the pool may
 * answer. In C, so that the tests and the fuzzer share it.
 */
#ifndef MOIETY_TESTS_FUZZ_POOL_MODEL_H_
#define MOIETY_TESTS_FUZZ_POOL_MODEL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define POOL_MODEL_MESSAGE_BYTES 512U
/* What the fuzzer and the replay of its corpus allow one input. */
#define POOL_MODEL_FUZZ_STEPS 2000U

struct pool_model_input {
    uint32_t steps;
    /* What to do comes from these bytes, until they are used up; or, where
     * there are none, from a generator that starts with `seed`. */
    uint64_t seed;
    const uint8_t *ops;
    size_t op_bytes;
};

/* False: `message` says at which step what went wrong. */
bool pool_model_run(const struct pool_model_input *input,
                    char message[POOL_MODEL_MESSAGE_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
