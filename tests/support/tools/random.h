/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Chances, and choices that a model takes from random numbers or from a fuzzer's
 * bytes.
 */
#ifndef MOIETY_TESTS_SUPPORT_TOOLS_RANDOM_H_
#define MOIETY_TESTS_SUPPORT_TOOLS_RANDOM_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/base/random.h"

/* True once in `odds` times. */
static inline bool random_once_in(uint64_t *state, uint32_t odds)
{
    return random_below(state, odds) == 0;
}

struct choices {
    uint64_t random;
    /* In place of random numbers, or NULL. */
    const uint8_t *bytes;
    size_t byte_count;
    size_t used_bytes;
};

/* True once a fuzzer's bytes are used up: all further choices are 0. */
static inline bool choices_are_over(const struct choices *choices)
{
    return choices->bytes && choices->used_bytes == choices->byte_count;
}

/* From 0 to `limit` - 1. */
static inline uint32_t choices_below(struct choices *choices, uint32_t limit)
{
    if (!choices->bytes)
        return random_below(&choices->random, limit);
    uint32_t value = 0;
    for (uint32_t room = limit - 1; room; room >>= 8)
        if (choices->used_bytes < choices->byte_count)
            value = value << 8 | choices->bytes[choices->used_bytes++];
    return value % limit;
}

#endif
