/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A clock that costs less than a call: the processor's counter of time where it
 * runs at one rate on all cores, nanoseconds of moietyi_now_ns() elsewhere.
 * What a tick is worth is found by reading both clocks twice.
 */
#ifndef MOIETY_POOL_BASE_TICKS_H_
#define MOIETY_POOL_BASE_TICKS_H_

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/clock.h"

/* Whether the processor has such a counter, and says so. Slow. */
bool moietyi_ticks_are_there(void);

/* `is_counter`: the result of the function above. Never less later in the
 * thread's order; the load of another thread's store may still come later. */
static inline uint64_t moietyi_ticks(bool is_counter)
{
#if defined(__x86_64__)
    if (is_counter)
        return __builtin_ia32_rdtsc();
#else
    (void)is_counter;
#endif
    return moietyi_now_ns();
}

/* The same, after all that this thread has read. */
static inline uint64_t moietyi_ticks_after(bool is_counter)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#endif
    return moietyi_ticks(is_counter);
}

/* Both clocks at one moment. */
struct moietyi_moment {
    uint64_t ticks;
    uint64_t time_ns;
};

struct moietyi_moment moietyi_moment_now(bool is_counter);
/* The time of a tick that was counted between two moments or near them,
 * accurate to one clock read. */
uint64_t moietyi_time_of(const struct moietyi_moment *first,
                         const struct moietyi_moment *second, uint64_t ticks);

#endif
