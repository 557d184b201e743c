/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Measures one cell: a workload on a subject with a number of threads.
 */
#ifndef MOIETY_BENCH_HARNESS_CELL_H_
#define MOIETY_BENCH_HARNESS_CELL_H_

#include <stdbool.h>
#include <stdint.h>

#include "bench/harness/plan.h"

/* How much time a cell may take. */
struct pace {
    uint64_t cell_us;     /* of all repetitions, if none is disturbed */
    uint64_t deadline_ns; /* from then on, disturbed ones count, too */
};

/* All durations in nanoseconds. */
struct measurement {
    double op_median;
    double op_p99;
    double op_p999;
    double op_mean;
    double call_p99;
    double call_p999;
    double cache_hit_rate; /* of the allocations; -1: there is no cache */
    uint64_t ops;          /* of all repetitions that count */
    uint64_t cell_us;      /* that were planned */
    uint32_t kept;         /* repetitions that count */
    uint32_t discarded;    /* in which a thread lost its processor */
    bool is_clean;         /* false: those that count are such, too */
    bool is_pinned;
};

/* NULL, or what went wrong. The subject has started. */
const char *cell_measure(const struct plan_cell *cell,
                         const struct subject *subject, uint64_t seed,
                         const struct pace *pace, struct measurement *out);

#endif
