/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Times single calls, by a counter that costs a part of what a call does.
 */
#ifndef MOIETY_BENCH_REPLAY_CLOCK_H_
#define MOIETY_BENCH_REPLAY_CLOCK_H_

#include "pool/base/ticks.h"

struct replay_clock {
    bool is_counter;
    uint64_t cost_ticks; /* of reading it twice; what a call took has it */
    struct moietyi_moment start;
};

void replay_clock_start(struct replay_clock *clock);
/* What a tick was worth since the start. */
double replay_clock_ns_per_tick(const struct replay_clock *clock);

static inline uint64_t replay_clock_spent(const struct replay_clock *clock,
                                          uint64_t start_ticks)
{
    uint64_t spent = moietyi_ticks_after(clock->is_counter) - start_ticks;
    return spent > clock->cost_ticks ? spent - clock->cost_ticks : 0;
}

#endif
