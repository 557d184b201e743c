/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/replay/clock.h"

#define TRIES 1000

void replay_clock_start(struct replay_clock *clock)
{
    *clock = (struct replay_clock){.is_counter = moietyi_ticks_are_there()};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t start = moietyi_ticks(clock->is_counter);
        uint64_t spent = replay_clock_spent(clock, start);
        if (spent < least)
            least = spent;
    }
    clock->cost_ticks = least;
    clock->start = moietyi_moment_now(clock->is_counter);
}

double replay_clock_ns_per_tick(const struct replay_clock *clock)
{
    struct moietyi_moment now = moietyi_moment_now(clock->is_counter);
    uint64_t ticks = now.ticks - clock->start.ticks;
    return ticks ? (double)(now.time_ns - clock->start.time_ns) / (double)ticks
                 : 1;
}
