/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers that a seed repeats: the xorshift64* generator. And choices,
 * which a model takes from them or from a fuzzer's bytes.
 */
#ifndef BINADE_TESTS_SUPPORT_TOOLS_RANDOM_H_
#define BINADE_TESTS_SUPPORT_TOOLS_RANDOM_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A state that is not 0, from a seed and a thread's number. */
static inline uint64_t random_start(uint64_t seed, unsigned thread)
{
    uint64_t mix = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) +
                   (thread + 1) * UINT64_C(0xd1b54a32d192ed03);
    mix ^= mix >> 29;
    return mix | 1;
}

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

/* From 0 to `limit` - 1. */
static inline uint32_t random_below(uint64_t *state, uint32_t limit)
{
    return (uint32_t)(((random_next(state) >> 32) * limit) >> 32);
}

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
