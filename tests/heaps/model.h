/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Random calls of one thread on heaps, each repeated on a map of one byte a
 * grain; the verifier, and a reading of all heaps, after every call. In C, so
 * that the tests, the fuzzer and the mutants share it.
 */
#ifndef MOIETY_TESTS_HEAPS_MODEL_H_
#define MOIETY_TESTS_HEAPS_MODEL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEAP_MODEL_MESSAGE_BYTES 256U

struct heap_model_input {
    uint32_t steps;
    /* What to do comes from these bytes, until they are used up; or, where
     * there are none, from a generator that starts with `seed`. */
    uint64_t seed;
    const uint8_t *ops;
    size_t op_bytes;
};

/* False: `message` says at which step what went wrong. */
bool heap_model_run(const struct heap_model_input *input,
                    char message[HEAP_MODEL_MESSAGE_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
