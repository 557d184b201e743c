/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/harness/plan.h"

#include <stdlib.h>

static void add_sizes(struct plan *plan, const struct workload *workload,
                      unsigned thread_count, const struct options *options)
{
    bool has_own = workload->sizes_bytes[0] != 0;
    uint32_t count = has_own ? WORKLOAD_SIZES_MAX : options->size_count;
    for (uint32_t i = 0; i < count; i++) {
        size_t size_bytes =
            has_own ? workload->sizes_bytes[i] : options->sizes_bytes[i];
        if (size_bytes)
            plan->cells[plan->cell_count++] = (struct plan_cell){
                workload, size_bytes, thread_count,
                options->streams ? options->streams : thread_count};
    }
}

static void count_seats(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->cell_count; i++) {
        const struct plan_cell *cell = &plan->cells[i];
        if (cell->thread_count > plan->threads_max)
            plan->threads_max = cell->thread_count;
        if (cell->workload->stream_count > plan->stream_count)
            plan->stream_count = cell->workload->stream_count;
    }
    if (plan->threads_max > plan->stream_count)
        plan->stream_count = plan->threads_max;
}

bool plan_init(struct plan *plan, const struct options *options)
{
    size_t sizes_max = options->size_count > WORKLOAD_SIZES_MAX
                           ? options->size_count
                           : WORKLOAD_SIZES_MAX;
    *plan = (struct plan){0};
    plan->cells = calloc((size_t)options->workload_count *
                             options->threads_count * sizes_max,
                         sizeof(*plan->cells));
    if (!plan->cells)
        return false;
    for (uint32_t w = 0; w < options->workload_count; w++)
        for (uint32_t t = 0; t < options->threads_count; t++)
            add_sizes(plan, options->workloads[w],
                      (unsigned)options->threads[t], options);
    count_seats(plan);
    return true;
}

void plan_fini(struct plan *plan)
{
    free(plan->cells);
}

bool plan_applies(const struct plan_cell *cell, const struct subject *subject)
{
    const struct workload *workload = cell->workload;
    uint64_t blocks =
        workload_blocks(workload, cell->size_bytes, cell->thread_count) *
        cell->thread_count;
    return (subject->has_streams || workload->stream_count == 0) &&
           (cell->thread_count % 2 == 0 || !workload->needs_pairs) &&
           (subject->blocks_max == 0 || blocks <= subject->blocks_max);
}
