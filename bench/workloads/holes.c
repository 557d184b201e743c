/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each thread first allocates twice as many blocks as the workload's name says
 * and frees every other one: so many holes. Then come bursts of 2048, of 1 KiB
 * or 16 KiB. It imitates a pool that has served for hours, and the case for
 * which other pools were reported to take 1 to 156 us. It does not show holes of
 * other sizes than the request: each fits exactly. Caches that grow with demand
 * come to hold a burst: what lies behind them is shown by the subject that has
 * none, and cache_hit_rate tells which of the two was measured.
 */
#include <stdlib.h>

#include "bench/workloads/workload.h"

#define BURST 2048U

struct holes {
    uint32_t wall_count;
    uint64_t burst[BURST];
    uint64_t wall[]; /* what stays between the holes */
};

/* The blocks that become holes are in `hole` until all are allocated. */
static bool build(struct worker *worker, struct holes *holes, uint64_t *hole,
                  uint32_t count)
{
    uint32_t made = 0;
    while (made < count && !worker->is_out_of_memory) {
        hole[made] = worker_alloc(worker, worker->size_bytes, worker->stream);
        holes->wall[made++] =
            worker_alloc(worker, worker->size_bytes, worker->stream);
    }
    holes->wall_count = made;
    for (uint32_t i = 0; i < made; i++)
        worker_free(worker, hole[i], worker->size_bytes, worker->stream);
    return !worker->is_out_of_memory;
}

static bool start(struct worker *worker)
{
    uint32_t count = (uint32_t)worker->block_count / 2;
    struct holes *holes = malloc(sizeof(*holes) + count * sizeof(uint64_t));
    uint64_t *hole = malloc(count * sizeof(*hole));
    worker->state = holes;
    bool is_built = false;
    if (holes)
        holes->wall_count = 0;
    if (holes && hole)
        is_built = build(worker, holes, hole, count);
    free(hole);
    return is_built;
}

static uint32_t batch(struct worker *worker)
{
    struct holes *holes = worker->state;
    uint32_t count = 0;
    while (count < BURST && !worker->is_out_of_memory)
        holes->burst[count++] =
            worker_alloc(worker, worker->size_bytes, worker->stream);
    for (uint32_t i = 0; i < count; i++)
        worker_free(worker, holes->burst[i], worker->size_bytes,
                    worker->stream);
    return count;
}

static void finish(struct worker *worker)
{
    struct holes *holes = worker->state;
    for (uint32_t i = 0; holes && i < holes->wall_count; i++)
        worker_free(worker, holes->wall[i], worker->size_bytes, worker->stream);
    free(holes);
}

const struct workload workload_holes4096 = {
    .name = "holes4096",
    .description = "bursts of 2048 into 4096 holes a thread",
    .sizes_bytes = {1024, 16384},
    .block_count = UINT64_C(2) * 4096,
    .start = start,
    .batch = batch,
    .finish = finish,
};

const struct workload workload_holes16384 = {
    .name = "holes16384",
    .description = "bursts of 2048 into 16384 holes a thread",
    .sizes_bytes = {1024, 16384},
    .block_count = UINT64_C(2) * 16384,
    .start = start,
    .batch = batch,
    .finish = finish,
};

const struct workload workload_holes65536 = {
    .name = "holes65536",
    .description = "bursts of 2048 into 65536 holes a thread",
    .sizes_bytes = {1024, 16384},
    .block_count = UINT64_C(2) * 65536,
    .start = start,
    .batch = batch,
    .finish = finish,
};
