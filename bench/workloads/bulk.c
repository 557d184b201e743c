/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocate many blocks of one size, then free them in the same order: bursts of
 * 64, which fit into a cache, and of 4096, which do not; and two programs of
 * the classical suite for host allocators in the sizes that the non-blocking
 * buddy's authors gave them (window of 340 MiB a thread; 50 000 objects of 4
 * KiB among all threads). They imitate a request that stages all it needs and
 * then drops it. They do not show fragmentation: all is free between bursts.
 */
#include <stdlib.h>

#include "bench/workloads/workload.h"

#define CLASSICAL_BLOCK_BYTES 4096U
#define CLASSICAL_WINDOW_BLOCKS 87040U
#define CLASSICAL_OBJECTS 50000U

struct bulk {
    uint64_t count;
    uint64_t address[];
};

static uint64_t at_least_one(uint64_t count)
{
    return count ? count : 1;
}

static uint64_t scale(size_t size_bytes)
{
    return at_least_one(size_bytes / CLASSICAL_BLOCK_BYTES);
}

static uint64_t blocks_scalability(size_t size_bytes, unsigned thread_count)
{
    (void)thread_count;
    return at_least_one(CLASSICAL_WINDOW_BLOCKS / scale(size_bytes));
}

static uint64_t blocks_threadtest(size_t size_bytes, unsigned thread_count)
{
    return at_least_one(CLASSICAL_OBJECTS / thread_count / scale(size_bytes));
}

static bool start(struct worker *worker)
{
    uint64_t count = worker->block_count;
    struct bulk *bulk = malloc(sizeof(*bulk) + count * sizeof(uint64_t));
    worker->state = bulk;
    if (bulk)
        bulk->count = count;
    return bulk != NULL;
}

static uint32_t batch(struct worker *worker)
{
    struct bulk *bulk = worker->state;
    uint64_t count = 0;
    while (count < bulk->count && !worker->is_out_of_memory)
        bulk->address[count++] =
            worker_alloc(worker, worker->size_bytes, worker->stream);
    for (uint64_t i = 0; i < count; i++)
        worker_free(worker, bulk->address[i], worker->size_bytes,
                    worker->stream);
    return (uint32_t)count;
}

static void finish(struct worker *worker)
{
    free(worker->state);
}

const struct workload workload_burst64 = {
    .name = "burst64",
    .description = "64 blocks of --size, then free them",
    .block_count = 64,
    .start = start,
    .batch = batch,
    .finish = finish,
};

const struct workload workload_burst4096 = {
    .name = "burst4096",
    .description = "4096 blocks of --size, then free them",
    .block_count = 4096,
    .start = start,
    .batch = batch,
    .finish = finish,
};

const struct workload workload_linux_scalability = {
    .name = "linux-scalability",
    .description = "340 MiB a thread in blocks of --size, then free them",
    .blocks = blocks_scalability,
    .start = start,
    .batch = batch,
    .finish = finish,
};

const struct workload workload_threadtest = {
    .name = "threadtest",
    .description = "200 MiB among all threads, likewise",
    .blocks = blocks_threadtest,
    .start = start,
    .batch = batch,
    .finish = finish,
};
