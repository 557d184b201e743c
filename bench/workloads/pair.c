/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocate, free, again and again, one size, with one other block held so that
 * the memory around does not merge and split each time. It imitates temporary
 * buffers of one size. It does not show more than the fastest path: a pool with
 * a cache never leaves the cache.
 */
#include "bench/workloads/workload.h"

#define BATCH_OPS 64U

/* The state is the address of the block that is held. */
static bool start(struct worker *worker)
{
    uint64_t held = worker_alloc(worker, worker->size_bytes, worker->stream);
    worker->state = (void *)(uintptr_t)held;
    return held != 0;
}

static uint32_t batch(struct worker *worker)
{
    size_t size_bytes = worker->size_bytes;
    for (uint32_t i = 0; i < BATCH_OPS; i++) {
        uint64_t address = worker_alloc(worker, size_bytes, worker->stream);
        worker_free(worker, address, size_bytes, worker->stream);
    }
    return BATCH_OPS;
}

static void finish(struct worker *worker)
{
    worker_free(worker, (uintptr_t)worker->state, worker->size_bytes,
                worker->stream);
}

const struct workload workload_pair = {
    .name = "pair",
    .description = "allocate and free one block of --size",
    .block_count = 2,
    .start = start,
    .batch = batch,
    .finish = finish,
};
