/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * 64 live blocks a thread, of 256 B to 2 MiB, each size as likely as its double
 * (log-uniform); an operation frees one at random and allocates another. It
 * imitates a server's steady state. It does not show how memory fragments over
 * hours, nor growth: what is live stays about the same. size_bytes is the
 * largest size.
 */
#include <math.h>
#include <stdlib.h>

#include "bench/workloads/workload.h"

#define LIVE_COUNT 64U
#define BATCH_OPS 32U
#define SIZE_COUNT 4096U
#define ORDER_MIN 8.0
#define ORDER_MAX 21.0

struct block {
    uint64_t address;
    uint32_t size_bytes;
};

struct mixed {
    struct block live[LIVE_COUNT];
    uint32_t sizes_bytes[SIZE_COUNT]; /* drawn before, as exp2() is slow */
};

static void refill(struct worker *worker, struct block *block,
                   const struct mixed *mixed)
{
    block->size_bytes =
        mixed->sizes_bytes[random_below(&worker->random, SIZE_COUNT)];
    block->address = worker_alloc(worker, block->size_bytes, worker->stream);
}

static bool start(struct worker *worker)
{
    struct mixed *mixed = calloc(1, sizeof(*mixed));
    worker->state = mixed;
    if (!mixed)
        return false;
    for (uint32_t i = 0; i < SIZE_COUNT; i++) {
        double order =
            ORDER_MIN + (ORDER_MAX - ORDER_MIN) * random_unit(&worker->random);
        mixed->sizes_bytes[i] = (uint32_t)exp2(order);
    }
    for (uint32_t i = 0; i < LIVE_COUNT; i++)
        refill(worker, &mixed->live[i], mixed);
    return !worker->is_out_of_memory;
}

static uint32_t batch(struct worker *worker)
{
    struct mixed *mixed = worker->state;
    for (uint32_t i = 0; i < BATCH_OPS; i++) {
        struct block *block =
            &mixed->live[random_below(&worker->random, LIVE_COUNT)];
        worker_free(worker, block->address, block->size_bytes, worker->stream);
        refill(worker, block, mixed);
    }
    return BATCH_OPS;
}

static void finish(struct worker *worker)
{
    struct mixed *mixed = worker->state;
    for (uint32_t i = 0; mixed && i < LIVE_COUNT; i++)
        worker_free(worker, mixed->live[i].address, mixed->live[i].size_bytes,
                    worker->stream);
    free(mixed);
}

const struct workload workload_mixed = {
    .name = "mixed",
    .description = "64 live blocks of 256 B to 2 MiB, replaced at random",
    .sizes_bytes = {(size_t)2 << 20},
    .block_count = LIVE_COUNT,
    .start = start,
    .batch = batch,
    .finish = finish,
};
