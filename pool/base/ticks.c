/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/base/ticks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Of so many readings the fastest is taken: others were interrupted. */
#define READINGS 5U

#if defined(__x86_64__)
#define POWER_LEAF 0x80000007U
#define INVARIANT_BIT (1U << 8)

bool moietyi_ticks_are_there(void)
{
    unsigned eax;
    unsigned ebx;
    unsigned ecx;
    unsigned edx;
    return __get_cpuid(POWER_LEAF, &eax, &ebx, &ecx, &edx) &&
           (edx & INVARIANT_BIT) != 0;
}
#else
bool moietyi_ticks_are_there(void)
{
    return false;
}
#endif

struct moietyi_moment moietyi_moment_now(bool is_counter)
{
    struct moietyi_moment moment = {0, 0};
    uint64_t least = UINT64_MAX;
    if (!is_counter) {
        moment.time_ns = moietyi_now_ns();
        moment.ticks = moment.time_ns;
        return moment;
    }
    for (unsigned i = 0; i < READINGS; i++) {
        uint64_t before = moietyi_ticks_after(is_counter);
        uint64_t time_ns = moietyi_now_ns();
        uint64_t duration = moietyi_ticks_after(is_counter) - before;
        if (duration < least) {
            least = duration;
            moment.ticks = before + duration / 2;
            moment.time_ns = time_ns;
        }
    }
    return moment;
}

uint64_t moietyi_time_of(const struct moietyi_moment *first,
                         const struct moietyi_moment *second, uint64_t ticks)
{
    double tick_ns = second->ticks > first->ticks
                         ? (double)(second->time_ns - first->time_ns) /
                               (double)(second->ticks - first->ticks)
                         : 0.0;
    if (ticks < first->ticks)
        return first->time_ns -
               (uint64_t)((double)(first->ticks - ticks) * tick_ns);
    return first->time_ns +
           (uint64_t)((double)(ticks - first->ticks) * tick_ns);
}
