/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The non-blocking buddy's "constant occupancy": 31 blocks a thread over five
 * sizes, sixteen of --size, eight of its double and so on up to one of sixteen
 * times --size; an operation frees one at random and allocates the same size
 * again. It imitates a working set whose shape never changes. It does not show
 * fragmentation, since what is freed is what is asked for next.
 */
#include <stdlib.h>

#include "bench/workloads/workload.h"

#define BLOCK_COUNT 31U
#define BATCH_OPS 32U

struct block {
    uint64_t address;
    size_t size_bytes;
};

static bool start(struct worker *worker)
{
    struct block *live = calloc(BLOCK_COUNT, sizeof(*live));
    worker->state = live;
    if (!live)
        return false;
    size_t size_bytes = worker->size_bytes;
    uint32_t made = 0;
    for (uint32_t count = 16; count > 0; count /= 2, size_bytes *= 2) {
        for (uint32_t i = 0; i < count; i++, made++) {
            live[made].size_bytes = size_bytes;
            live[made].address =
                worker_alloc(worker, size_bytes, worker->stream);
        }
    }
    return !worker->is_out_of_memory;
}

static uint32_t batch(struct worker *worker)
{
    struct block *live = worker->state;
    for (uint32_t i = 0; i < BATCH_OPS; i++) {
        struct block *block = &live[random_below(&worker->random, BLOCK_COUNT)];
        worker_free(worker, block->address, block->size_bytes, worker->stream);
        block->address =
            worker_alloc(worker, block->size_bytes, worker->stream);
    }
    return BATCH_OPS;
}

static void finish(struct worker *worker)
{
    struct block *live = worker->state;
    for (uint32_t i = 0; live && i < BLOCK_COUNT; i++)
        worker_free(worker, live[i].address, live[i].size_bytes,
                    worker->stream);
    free(live);
}

const struct workload workload_occupancy = {
    .name = "occupancy",
    .description = "31 blocks of --size to 16 times --size, replaced at random",
    .block_count = BLOCK_COUNT,
    .start = start,
    .batch = batch,
    .finish = finish,
};
