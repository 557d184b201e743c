/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each thread goes from stream to stream over 32 of them, or 1 or 1000, with
 * one live block of --size on each: it frees the block on the stream and
 * allocates another. It imitates a server that takes a stream from a pool for
 * each request. It does not show work: the streams are idle, so memory can be
 * used again at once. All threads share the streams. Only subjects that keep
 * the order of streams themselves run it.
 */
#include <stdlib.h>

#include "bench/workloads/workload.h"

#define BATCH_OPS 32U

struct hop {
    unsigned stream_count;
    unsigned next;
    uint64_t address[]; /* by stream */
};

static bool start(struct worker *worker)
{
    unsigned stream_count = (unsigned)worker->block_count;
    struct hop *hop =
        calloc(1, sizeof(*hop) + stream_count * sizeof(hop->address[0]));
    worker->state = hop;
    if (!hop)
        return false;
    hop->stream_count = stream_count;
    /* Threads begin on different streams. */
    hop->next = worker->stream % stream_count;
    for (unsigned i = 0; i < stream_count && !worker->is_out_of_memory; i++)
        hop->address[i] = worker_alloc(worker, worker->size_bytes, i);
    return !worker->is_out_of_memory;
}

static uint32_t batch(struct worker *worker)
{
    struct hop *hop = worker->state;
    for (unsigned i = 0; i < BATCH_OPS; i++) {
        unsigned stream = hop->next;
        hop->next = stream + 1 < hop->stream_count ? stream + 1 : 0;
        worker_free(worker, hop->address[stream], worker->size_bytes, stream);
        hop->address[stream] = worker_alloc(worker, worker->size_bytes, stream);
    }
    return BATCH_OPS;
}

static void finish(struct worker *worker)
{
    struct hop *hop = worker->state;
    for (unsigned i = 0; hop && i < hop->stream_count; i++)
        worker_free(worker, hop->address[i], worker->size_bytes, i);
    free(hop);
}

const struct workload workload_streams = {
    .name = "streams",
    .description = "from stream to stream over 32, a block of --size on each",
    .stream_count = 32,
    .block_count = 32,
    .start = start,
    .batch = batch,
    .finish = finish,
};

const struct workload workload_streams1 = {
    .name = "streams1",
    .description = "the same over one stream that all threads share",
    .stream_count = 1,
    .is_extra = true,
    .block_count = 1,
    .start = start,
    .batch = batch,
    .finish = finish,
};

const struct workload workload_streams1000 = {
    .name = "streams1000",
    .description = "the same over 1000 streams",
    .stream_count = 1000,
    .is_extra = true,
    .block_count = 1000,
    .start = start,
    .batch = batch,
    .finish = finish,
};
