/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/replay/bisect.h"

#include "bench/replay/run.h"

#define STEP_BYTES_MIN (UINT64_C(2) << 20)
#define STEP_PARTS 1024U
#define DOUBLINGS 2U

struct search {
    const struct subject *subject;
    struct subject_setup setup;
    struct replay_source *source;
    const char *why; /* what stopped it */
};

static bool passes(struct search *search, uint64_t limit_bytes)
{
    bool does = false;
    search->setup.limit_bytes = limit_bytes;
    search->why = search->subject->start(&search->setup);
    if (search->why)
        return false;
    search->why = replay_run_passes(search->subject, search->source, &does);
    search->subject->stop();
    return does;
}

/* A limit that passes, from what it takes without one; 0: none was found. */
static uint64_t find_high(struct search *search, uint64_t reserved_bytes)
{
    for (unsigned i = 0; i <= DOUBLINGS; i++, reserved_bytes *= 2) {
        if (passes(search, reserved_bytes))
            return reserved_bytes;
        if (search->why)
            return 0;
    }
    return 0;
}

const char *replay_bisect(const struct subject *subject,
                          const struct subject_setup *setup,
                          struct replay_source *source, uint64_t reserved_bytes,
                          uint64_t *out)
{
    struct search search = {subject, *setup, source, NULL};
    uint64_t low = source->about.peak_live_bytes;
    uint64_t step = low / STEP_PARTS;
    if (step < STEP_BYTES_MIN)
        step = STEP_BYTES_MIN;
    *out = SUBJECT_UNKNOWN;
    uint64_t high = reserved_bytes == SUBJECT_UNKNOWN
                        ? 0
                        : find_high(&search, reserved_bytes);
    if (high == 0)
        return search.why;
    /* Below the least that it can be: one step, so that it is tried itself. */
    low = low > step ? low - step : 0;
    while (high > low + step && !search.why) {
        uint64_t middle = low + (high - low) / 2;
        if (passes(&search, middle))
            high = middle;
        else
            low = middle;
    }
    *out = high;
    return search.why;
}
