/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How far the device lags behind the host while a subject is measured: the
 * value of the option --lag, as text and as numbers.
 */
#ifndef MOIETY_BENCH_LAG_PLAN_H_
#define MOIETY_BENCH_LAG_PLAN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LAG_TEXT_BYTES 64U
#define LAG_PLANS_MAX 32U

#define LAG_WORK_US_MAX 100000U
#define LAG_FILLS_MAX 100U
#define LAG_SYNC_MAX 1000000U
/* Threads of a subject that lags. */
#define LAG_THREADS_MAX 8192U

/* All false and 0: nothing is queued on the device, which idles. */
struct lag_plan {
    char text[LAG_TEXT_BYTES]; /* as it was given */
    bool is_held;              /* no stream begins any work */
    bool has_work;             /* some is queued behind each call */
    uint32_t work_us;          /* for how long; 0: as short as there is */
    uint32_t fill_count;       /* how often an allocated block is filled */
    uint32_t sync_every;       /* calls of a thread; 0: it never waits */
};

/* Several, in the order in which they are measured. */
struct lag_plans {
    struct lag_plan plans[LAG_PLANS_MAX];
    uint32_t count;
};

/* What lag_plans_parse() takes, for messages. */
#define LAG_ACCEPTED                                                           \
    "idle, held, or one or more of work:1 to work:100000, fill:1 to fill:100 " \
    "and sync:1 to sync:1000000 with + between them, each at most once; "      \
    "a list of these with commas"

extern const struct lag_plan lag_idle;

/* Appends the plans of a list with commas. False: there is nonsense in it, or
 * a plan twice, or more of them than there is room for. */
bool lag_plans_parse(const char *list, struct lag_plans *plans);

bool lag_is_idle(const struct lag_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
