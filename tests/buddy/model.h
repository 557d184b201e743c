/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Random operations on a buddy, each repeated on a byte map and on the mutex
 * buddy, with the verifier after every step. In C, so that the tests, the
 * fuzzer and the mutants share it.
 */
#ifndef MOIETY_TESTS_BUDDY_MODEL_H_
#define MOIETY_TESTS_BUDDY_MODEL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BUDDY_MODEL_MESSAGE_BYTES 256U

struct buddy_model_input {
    uint32_t steps;
    /* What to do comes from these bytes, until they are used up; or, where
     * there are none, from a generator that starts with `seed`. */
    uint64_t seed;
    const uint8_t *ops;
    size_t op_bytes;
};

/* False: `message` says at which step what went wrong. */
bool buddy_model_run(const struct buddy_model_input *input,
                     char message[BUDDY_MODEL_MESSAGE_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
