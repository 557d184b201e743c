/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>

#include <moiety/status.h>

#include "bench/base/clock.h"
#include "bench/base/device.h"
#include "bench/host/pipeline.h"

/* Never the same in two blocks of a run. */
static uint64_t tag_of(const struct pipeline_worker *worker, uint64_t turn)
{
    return (uint64_t)(worker->index + 1) << 24 | (turn & 0xffffff);
}

static void *take(struct pipeline_worker *worker, uint64_t turn)
{
    const struct pipeline *pipeline = worker->pipeline;
    unsigned slot = turn % PIPELINE_DEPTH;
    void *address;
    if (pipeline->is_paced && turn >= PIPELINE_DEPTH &&
        MOIETYI_CALL(host_driver(), cuEventSynchronize,
                     (worker->copied[slot])) != MOIETY_OK)
        return NULL;
    if (pipeline->is_ring)
        return worker->ring[slot].address;
    return moiety_host_alloc(pipeline->arena, pipeline->block_bytes,
                             MOIETY_HOST_CPU, &address) == MOIETY_OK
               ? address
               : NULL;
}

static bool give(struct pipeline_worker *worker, uint64_t turn, void *address)
{
    const struct pipeline *pipeline = worker->pipeline;
    CUevent copied = worker->copied[turn % PIPELINE_DEPTH];
    bool is_well = !pipeline->is_paced ||
                   MOIETYI_CALL(host_driver(), cuEventRecord,
                                (copied, worker->stream)) == MOIETY_OK;
    if (!pipeline->is_ring)
        is_well &= moiety_host_free(pipeline->arena, address, worker->stream) ==
                   MOIETY_OK;
    return is_well;
}

/* The last word is copied last, so it is what a buffer that is written too
 * early gets wrong first. */
static bool send(struct pipeline_worker *worker, uint64_t turn,
                 const void *address)
{
    size_t size_bytes = worker->pipeline->block_bytes;
    if (MOIETYI_CALL(host_driver(), cuMemcpyHtoDAsync,
                     (worker->there, address, size_bytes, worker->stream)) !=
        MOIETY_OK)
        return false;
    return !worker->pipeline->is_filled ||
           MOIETYI_CALL(host_driver(), cuMemcpyDtoHAsync,
                        (&worker->arrived[turn % PIPELINE_SLOTS],
                         worker->there + size_bytes - sizeof(uint64_t),
                         sizeof(uint64_t), worker->stream)) == MOIETY_OK;
}

static bool stage(struct pipeline_worker *worker, uint64_t turn)
{
    const struct pipeline *pipeline = worker->pipeline;
    void *address = take(worker, turn);
    if (!address)
        return false;
    if (pipeline->is_filled)
        host_fill(address, pipeline->block_bytes, tag_of(worker, turn));
    bool is_sent = send(worker, turn, address);
    return give(worker, turn, address) && is_sent;
}

static bool stage_all(struct pipeline_worker *worker)
{
    if (!bench_device_attach(worker->index))
        return false;
    do {
        if (!stage(worker, worker->block_count))
            return false;
        worker->block_count++;
    } while (clock_now_ns() < worker->pipeline->end_ns);
    return MOIETYI_CALL(host_driver(), cuStreamSynchronize, (worker->stream)) ==
           MOIETY_OK;
}

void *pipeline_work(void *argument)
{
    struct pipeline_worker *worker = argument;
    worker->block_count = 0;
    (void)pthread_barrier_wait(&worker->pipeline->begin);
    worker->has_failed = !stage_all(worker);
    worker->ended_ns = clock_now_ns();
    if (worker->has_failed) {
        (void)snprintf(worker->why, sizeof(worker->why), "worker %u: %s",
                       worker->index, moiety_last_error_message());
        /* Nothing may be pending on what goes away after a failure. */
        (void)host_driver()->cuStreamSynchronize(worker->stream);
    }
    return NULL;
}

static uint64_t count_strangers(const struct pipeline_worker *worker)
{
    size_t last = worker->pipeline->block_bytes - sizeof(uint64_t);
    uint64_t count = worker->block_count;
    uint64_t strangers = 0;
    for (uint64_t turn = count > PIPELINE_SLOTS ? count - PIPELINE_SLOTS : 0;
         turn < count; turn++)
        strangers += worker->arrived[turn % PIPELINE_SLOTS] !=
                     host_fill_word(tag_of(worker, turn), last);
    return strangers;
}

const char *pipeline_check(const struct pipeline_worker *worker,
                           const struct host_buffer *scratch)
{
    static char reason[96];
    uint64_t strangers = count_strangers(worker);
    if (MOIETYI_CALL(host_driver(), cuMemcpyDtoHAsync,
                     (scratch->address, worker->there, scratch->size_bytes,
                      worker->stream)) != MOIETY_OK ||
        MOIETYI_CALL(host_driver(), cuStreamSynchronize, (worker->stream)) !=
            MOIETY_OK)
        return moiety_last_error_message();
    size_t wrong = host_count_wrong(scratch->address, scratch->size_bytes,
                                    tag_of(worker, worker->block_count - 1));
    if (strangers == 0 && wrong == 0)
        return NULL;
    (void)snprintf(reason, sizeof(reason),
                   "worker %u: %llu blocks arrived with another's end, %zu "
                   "bytes of the last are wrong",
                   worker->index, (unsigned long long)strangers, wrong);
    return reason;
}
