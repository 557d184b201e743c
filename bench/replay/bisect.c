/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/replay/bisect.h"

#include "bench/replay/run.h"

#define STEP_BYTES_MIN (UINT64_C(2) << 20)
#define STEP_PARTS 1024U
#define DOUBLINGS 2U
/* Limits up to this part above the smallest are verified, in so many steps. */
#define VERIFIED_PART 20U
#define VERIFIED_STEPS 64U
#define RAISES 20U

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

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

/* The highest limit to try: it passes there. 0: none was found. */
static uint64_t find_top(struct search *search, uint64_t from_bytes,
                         uint64_t step)
{
    uint64_t top = round_up(from_bytes + from_bytes / VERIFIED_PART, step);
    for (unsigned i = 0; i < RAISES; i++) {
        if (passes(search, top))
            return top;
        if (search->why)
            return 0;
        top = round_up(top + top / VERIFIED_PART, step);
    }
    return 0;
}

const char *replay_fit_verify(const struct subject *subject,
                              const struct subject_setup *setup,
                              struct replay_source *source, uint64_t from_bytes,
                              struct replay_fit *out)
{
    struct search search = {subject, *setup, source, NULL};
    uint64_t step = round_up(from_bytes / VERIFIED_PART / VERIFIED_STEPS + 1,
                             STEP_BYTES_MIN);
    uint64_t top = find_top(&search, from_bytes, step);
    uint64_t limit = top;
    *out = (struct replay_fit){
        .limit_bytes = top ? top : SUBJECT_UNKNOWN,
        .tried_to_bytes = top,
        .step_bytes = step,
        .tried_count = 1,
    };
    while (top && limit > step && passes(&search, limit - step)) {
        limit -= step;
        out->limit_bytes = limit;
        out->tried_count++;
    }
    return search.why;
}
