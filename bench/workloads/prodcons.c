/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One thread of a pair allocates, the other frees, through a bounded ring; both
 * use the pair's stream. It imitates a loader that feeds a worker. Counted is
 * what passes through the consumer, so a number is the cost of a block on its
 * way, at the pace of the slower of the two; it does not tell allocation from
 * free, and the ring's own cost is in it (subject `null` shows it).
 */
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bench/workloads/workload.h"

#define RING_BLOCKS 1024U
#define BATCH_OPS 64U
/* Looks at the other's index before it lets others run and reads the clock. */
#define SPINS 256U

/* One producer, one consumer. Each index is written by one of them. Edge BR:
 * storing an index (release) -> the other's load of it (acquire) hands over the
 * slots in between. */
struct ring {
    alignas(128) _Atomic uint64_t pushed;
    alignas(128) _Atomic uint64_t popped;
    alignas(128) uint64_t address[RING_BLOCKS];
};

static void *begin(unsigned thread_count)
{
    size_t size_bytes = thread_count / 2 * sizeof(struct ring);
    struct ring *rings = aligned_alloc(alignof(struct ring), size_bytes);
    for (unsigned i = 0; rings && i < thread_count / 2; i++) {
        atomic_init(&rings[i].pushed, 0);
        atomic_init(&rings[i].popped, 0);
    }
    return rings;
}

static void end(void *shared)
{
    free(shared);
}

static bool start(struct worker *worker)
{
    struct ring *rings = worker->shared;
    worker->state = &rings[worker->index / 2];
    worker->stream = worker->index / 2;
    return true;
}

/* Waits until `index` is not `value` any more; false when time is up. */
static bool has_moved(const struct worker *worker, _Atomic uint64_t *index,
                      uint64_t value)
{
    for (uint32_t spins = 1;; spins++) {
        /* BR.acquire. */
        if (atomic_load_explicit(index, memory_order_acquire) != value)
            return true;
        if (spins % SPINS)
            continue;
        if (clock_now_ns() >= worker->deadline_ns)
            return false;
        (void)sched_yield();
    }
}

static void produce(struct worker *worker, struct ring *ring)
{
    /* relaxed: this thread wrote it. */
    uint64_t pushed = atomic_load_explicit(&ring->pushed, memory_order_relaxed);
    for (uint32_t i = 0; i < BATCH_OPS; i++) {
        if (!has_moved(worker, &ring->popped, pushed - RING_BLOCKS))
            return;
        uint64_t address =
            worker_alloc(worker, worker->size_bytes, worker->stream);
        if (!address)
            return;
        ring->address[pushed++ % RING_BLOCKS] = address;
        /* BR.release. */
        atomic_store_explicit(&ring->pushed, pushed, memory_order_release);
    }
}

static uint32_t consume(struct worker *worker, struct ring *ring)
{
    /* relaxed: this thread wrote it. */
    uint64_t popped = atomic_load_explicit(&ring->popped, memory_order_relaxed);
    for (uint32_t i = 0; i < BATCH_OPS; i++) {
        if (!has_moved(worker, &ring->pushed, popped))
            return i;
        worker_free(worker, ring->address[popped++ % RING_BLOCKS],
                    worker->size_bytes, worker->stream);
        /* BR.release. */
        atomic_store_explicit(&ring->popped, popped, memory_order_release);
    }
    return BATCH_OPS;
}

static uint32_t batch(struct worker *worker)
{
    if (worker->index % 2)
        return consume(worker, worker->state);
    produce(worker, worker->state);
    return 0;
}

/* The producers have stopped. */
static void finish(struct worker *worker)
{
    struct ring *ring = worker->state;
    if (worker->index % 2 == 0)
        return;
    uint64_t popped = atomic_load_explicit(&ring->popped, memory_order_relaxed);
    while (popped != atomic_load_explicit(&ring->pushed, memory_order_acquire))
        worker_free(worker, ring->address[popped++ % RING_BLOCKS],
                    worker->size_bytes, worker->stream);
}

const struct workload workload_prodcons = {
    .name = "prodcons",
    .description = "one thread allocates --size, another frees",
    .needs_pairs = true,
    .block_count = RING_BLOCKS,
    .begin = begin,
    .end = end,
    .start = start,
    .batch = batch,
    .finish = finish,
};
