/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The cells of a matrix in their order: the process that starts the others and
 * these make the same plan from the same arguments, and name a cell by its
 * number.
 */
#ifndef MOIETY_BENCH_HARNESS_PLAN_H_
#define MOIETY_BENCH_HARNESS_PLAN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/harness/options.h"

struct plan_cell {
    const struct workload *workload;
    size_t size_bytes;
    unsigned thread_count;
    unsigned stream_count; /* that the threads have together */
};

struct plan {
    struct plan_cell *cells;
    uint32_t cell_count;
    unsigned threads_max;
    unsigned stream_count; /* of each process */
};

/* False: no memory. */
bool plan_init(struct plan *plan, const struct options *options);
void plan_fini(struct plan *plan);

/* Whether the subject runs this cell at all. */
bool plan_applies(const struct plan_cell *cell, const struct subject *subject);

#endif
