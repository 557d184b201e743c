/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Workers that stage blocks: each gets a buffer, fills it, has it copied to the
 * device on a stream of its own, and gives it back while the copy is pending.
 */
#ifndef MOIETY_BENCH_HOST_PIPELINE_H_
#define MOIETY_BENCH_HOST_PIPELINE_H_

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <moiety/host.h>

#include "bench/host/host.h"
#include "bench/host/rig.h"

/* Buffers that a worker may have under way: one is filled while one is copied.
 */
#define PIPELINE_DEPTH 2U
/* Arrivals that are remembered, of each worker. */
#define PIPELINE_SLOTS 1024U

struct pipeline;

struct pipeline_worker {
    struct pipeline *pipeline;
    unsigned index;
    pthread_t thread;
    CUstream stream;
    CUdeviceptr there;
    /* What a program without an arena does: buffers in turn, each with the
     * event of its last copy. */
    struct host_buffer ring[PIPELINE_DEPTH];
    CUevent copied[PIPELINE_DEPTH]; /* of a worker that paces itself */
    /* The last word of each block as it came back from the device. */
    uint64_t *arrived;
    /* Of the last run; the worker's until it is joined. */
    uint64_t block_count;
    uint64_t ended_ns;
    bool has_failed;
    char why[256];
};

struct pipeline {
    size_t block_bytes;
    unsigned worker_count;
    moiety_host *arena; /* holds no more than the rings together */
    struct host_buffer arrivals;
    struct pipeline_worker workers[HOST_WORKERS_MAX];
    /* Of a run. */
    bool is_ring;   /* buffers of the rings, not of the arena */
    bool is_paced;  /* waits for events of its own, not for the arena */
    bool is_filled; /* writes every word */
    uint64_t end_ns;
    pthread_barrier_t begin;
};

/* The body of a thread; `argument` is its worker. */
void *pipeline_work(void *argument);

/* After the run: that what was filled is what arrived. NULL, or what is wrong.
 * `scratch` holds a block. */
const char *pipeline_check(const struct pipeline_worker *worker,
                           const struct host_buffer *scratch);

#endif
