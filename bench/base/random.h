/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers that cost about a nanosecond and are the same for everybody:
 * the C library's differ from one machine to the next, and are slower than
 * what is measured.
 */
#ifndef MOIETY_BENCH_BASE_RANDOM_H_
#define MOIETY_BENCH_BASE_RANDOM_H_

#include <stdint.h>

/* A state that is not 0, from a seed and the number of a thread. */
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

/* From 0 to 1, 1 excluded. */
static inline double random_unit(uint64_t *state)
{
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

#endif
