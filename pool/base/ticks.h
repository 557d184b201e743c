/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A clock that costs less than a call: the processor's counter of time where it
 * runs at one rate on all cores, nanoseconds of binadei_now_ns() elsewhere.
 * What a tick is worth is found by reading both clocks twice.
 */
#ifndef BINADE_POOL_BASE_TICKS_H_
#define BINADE_POOL_BASE_TICKS_H_

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/clock.h"

/* Whether the processor has such a counter, and says so. Slow. */
bool binadei_ticks_are_there(void);

/* `is_counter`: what the function above said. Later in the thread's order is
 * never less; the load of another thread's store may still come later. */
static inline uint64_t binadei_ticks(bool is_counter)
{
#if defined(__x86_64__)
    if (is_counter)
        return __builtin_ia32_rdtsc();
#else
    (void)is_counter;
#endif
    return binadei_now_ns();
}

/* The same, after all that this thread has read. */
static inline uint64_t binadei_ticks_after(bool is_counter)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#endif
    return binadei_ticks(is_counter);
}

/* Both clocks at one moment. */
struct binadei_moment {
    uint64_t ticks;
    uint64_t time_ns;
};

struct binadei_moment binadei_moment_now(bool is_counter);
/* The time of a tick that was counted between two moments, or not far from
 * them: exact to what it takes to read a clock. */
uint64_t binadei_time_of(const struct binadei_moment *first,
                         const struct binadei_moment *second, uint64_t ticks);

#endif
