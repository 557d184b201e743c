/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One thread of a measurement, as workloads see it. Only its own thread touches
 * it while it runs.
 */
#ifndef MOIETY_BENCH_WORKLOADS_WORKER_H_
#define MOIETY_BENCH_WORKLOADS_WORKER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/base/clock.h"
#include "bench/base/histogram.h"
#include "bench/base/random.h"
#include "bench/subjects/subject.h"

struct worker {
    const struct subject *subject;
    void *shared; /* of all threads; what the workload's `begin` returned */
    void *state;  /* of this thread; the workload's */
    struct histogram *calls; /* NULL: calls are not timed one by one */
    uint64_t clock_ns;       /* what reading the clock costs */
    uint64_t queue_ns;       /* what queueing the device's work took so far */
    uint64_t deadline_ns;    /* when to stop waiting for another thread */
    uint64_t random;
    size_t size_bytes;
    uint64_t block_count; /* workload_blocks() */
    unsigned index;
    unsigned thread_count;
    unsigned stream; /* its own */
    bool is_out_of_memory;
};

static inline void worker_note_call(struct worker *worker, uint64_t start_ns)
{
    uint64_t spent_ns = clock_now_ns() - start_ns;
    spent_ns -= spent_ns < worker->clock_ns ? spent_ns : worker->clock_ns;
    histogram_add(worker->calls, spent_ns * 1000);
}

static inline void worker_follow(struct worker *worker, unsigned stream,
                                 uint64_t address, size_t size_bytes)
{
    if (!worker->subject->follow)
        return;
    uint64_t start_ns = clock_now_ns();
    worker->subject->follow(worker->index, stream, address, size_bytes);
    worker->queue_ns += clock_now_ns() - start_ns;
}

/* 0 when there is no memory: then the measurement is about to end. */
static inline uint64_t worker_alloc(struct worker *worker, size_t size_bytes,
                                    unsigned stream)
{
    uint64_t start_ns = worker->calls ? clock_now_ns() : 0;
    uint64_t address =
        worker->subject->alloc(worker->index, size_bytes, stream);
    if (worker->calls)
        worker_note_call(worker, start_ns);
    if (!address)
        worker->is_out_of_memory = true;
    else
        worker_follow(worker, stream, address, size_bytes);
    return address;
}

/* Does nothing for address 0. */
static inline void worker_free(struct worker *worker, uint64_t address,
                               size_t size_bytes, unsigned stream)
{
    if (!address)
        return;
    uint64_t start_ns = worker->calls ? clock_now_ns() : 0;
    worker->subject->free(worker->index, address, size_bytes, stream);
    if (worker->calls)
        worker_note_call(worker, start_ns);
    worker_follow(worker, stream, 0, size_bytes);
}

#endif
