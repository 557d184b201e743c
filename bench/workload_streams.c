/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each thread goes from stream to stream over 32 of them, with one live block
 * of --size on each: it frees the block on the stream and allocates another.
 * It imitates a server that takes a stream from a pool for each request. It
 * does not show work: the streams are idle, so memory can be used again at
 * once. Only subjects that keep the order of streams themselves run it.
 */
#include <stdlib.h>

#include "bench/workload.h"

#define BATCH_OPS SUBJECT_STREAMS

static uint64_t blocks(size_t size_bytes, unsigned thread_count)
{
    (void)size_bytes;
    (void)thread_count;
    return SUBJECT_STREAMS;
}

static bool start(struct worker *worker)
{
    uint64_t *address = calloc(SUBJECT_STREAMS, sizeof(*address));
    worker->state = address;
    for (unsigned i = 0; address && i < SUBJECT_STREAMS; i++)
        address[i] = worker_alloc(worker, worker->size_bytes, i);
    return address && !worker->is_out_of_memory;
}

static uint32_t batch(struct worker *worker)
{
    uint64_t *address = worker->state;
    for (unsigned i = 0; i < SUBJECT_STREAMS; i++) {
        unsigned stream = (i + worker->stream) % SUBJECT_STREAMS;
        worker_free(worker, address[stream], worker->size_bytes, stream);
        address[stream] = worker_alloc(worker, worker->size_bytes, stream);
    }
    return BATCH_OPS;
}

static void finish(struct worker *worker)
{
    uint64_t *address = worker->state;
    for (unsigned i = 0; address && i < SUBJECT_STREAMS; i++)
        worker_free(worker, address[i], worker->size_bytes, i);
    free(address);
}

const struct workload workload_streams = {
    .name = "streams",
    .description = "from stream to stream over 32, a block of --size on each",
    .needs_streams = true,
    .blocks = blocks,
    .start = start,
    .batch = batch,
    .finish = finish,
};
