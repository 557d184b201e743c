/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Constant occupancy with many blocks: 100 to 1 000 000 of them live among all
 * threads, in the shares of `occupancy`, from 4 KiB for half of them up to 64
 * KiB; an operation frees one at random and allocates the same size again. It
 * shows whether a pool becomes slower as it fills. The blocks of a batch are
 * drawn and prefetched before its first operation, so that what it measures is
 * not the harness' own table falling out of the processor's caches; what the
 * subject has to look up still does. The batch's drawing counts as its time.
 *
 * Beside it, a pair of 64 KiB, again and again, while so many others live: that
 * does not touch them, and so shows what their mere number costs.
 */
#include <stdlib.h>

#include "bench/workloads/workload.h"

#define SIZE_BYTES ((size_t)4096)
/* The largest is SIZE_BYTES << ORDER_MAX. */
#define ORDER_MAX 4U
/* Sixteen, eight, four, two and one of this many. */
#define SHAPE_COUNT 31U
#define BATCH_OPS 32U

struct flat {
    uint64_t count;
    uint64_t address[];
};

/* The size is given by the place. */
static size_t size_at(uint64_t index)
{
    unsigned order = 0;
    for (uint64_t rest = index % SHAPE_COUNT, share = 16; rest >= share;
         share /= 2) {
        rest -= share;
        order++;
    }
    return SIZE_BYTES << order;
}

static uint64_t share_of(uint64_t count, unsigned thread_count)
{
    return count > thread_count ? count / thread_count : 1;
}

static bool start(struct worker *worker)
{
    uint64_t count = worker->block_count;
    struct flat *flat =
        calloc(1, sizeof(*flat) + count * sizeof(flat->address[0]));
    worker->state = flat;
    if (!flat)
        return false;
    flat->count = count;
    for (uint64_t i = 0; i < count && !worker->is_out_of_memory; i++)
        flat->address[i] = worker_alloc(worker, size_at(i), worker->stream);
    return !worker->is_out_of_memory;
}

static uint32_t batch(struct worker *worker)
{
    struct flat *flat = worker->state;
    uint32_t drawn[BATCH_OPS];
    for (uint32_t i = 0; i < BATCH_OPS; i++) {
        drawn[i] = random_below(&worker->random, (uint32_t)flat->count);
        __builtin_prefetch(&flat->address[drawn[i]], 1);
    }
    for (uint32_t i = 0; i < BATCH_OPS; i++) {
        uint64_t *address = &flat->address[drawn[i]];
        size_t size_bytes = size_at(drawn[i]);
        worker_free(worker, *address, size_bytes, worker->stream);
        *address = worker_alloc(worker, size_bytes, worker->stream);
    }
    return BATCH_OPS;
}

static uint32_t batch_pair(struct worker *worker)
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
    struct flat *flat = worker->state;
    for (uint64_t i = 0; flat && i < flat->count; i++)
        worker_free(worker, flat->address[i], size_at(i), worker->stream);
    free(flat);
}

/* Two workloads for a number of blocks: no size of their own but the largest
 * of the mix, like the other mixes. */
#define FLAT(total)                                                            \
    static uint64_t blocks##total(size_t size_bytes, unsigned thread_count)    \
    {                                                                          \
        (void)size_bytes;                                                      \
        return share_of(total, thread_count);                                  \
    }                                                                          \
    const struct workload workload_occupancy##total = {                        \
        .name = "occupancy" #total,                                            \
        .description = #total " live blocks of 4 to 64 KiB among all threads", \
        .sizes_bytes = {SIZE_BYTES << ORDER_MAX},                              \
        .is_extra = true,                                                      \
        .blocks = blocks##total,                                               \
        .start = start,                                                        \
        .batch = batch,                                                        \
        .finish = finish,                                                      \
    };                                                                         \
    const struct workload workload_pair##total = {                             \
        .name = "pair" #total,                                                 \
        .description = "one block of 64 KiB beside " #total " that live",      \
        .sizes_bytes = {SIZE_BYTES << ORDER_MAX},                              \
        .is_extra = true,                                                      \
        .blocks = blocks##total,                                               \
        .start = start,                                                        \
        .batch = batch_pair,                                                   \
        .finish = finish,                                                      \
    }

FLAT(100);
FLAT(1000);
FLAT(10000);
FLAT(100000);
FLAT(1000000);
