/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Binade's pool, as a program would use it, over the driver's memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <binade/binade.h>

#include "bench/base/device.h"
#include "bench/subjects/replay_pool.h"
#include "bench/subjects/replay_streams.h"
#include "bench/subjects/replay_subject.h"
#include "pool/body.h"

static binade_pool *pool;
static char reason[1024];

static const char *start_with(binade_pool_options *options,
                              const struct replay_setup *setup)
{
    const char *why = replay_streams_start(setup);
    if (why)
        return why;
    options->limit_bytes = setup->limit_bytes;
    if (binade_pool_create(options, &pool) == BINADE_OK)
        return NULL;
    (void)snprintf(reason, sizeof(reason), "%s", binade_last_error_message());
    bench_device_stop();
    return reason;
}

static const char *start(const struct replay_setup *setup)
{
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    return start_with(&options, setup);
}

static const char *start_nocache(const struct replay_setup *setup)
{
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    options.thread_cache_bytes = 0;
    return start_with(&options, setup);
}

static uint64_t alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    binade_devptr address;
    return binade_alloc(pool, size_bytes, bench_device_streams[stream],
                        &address) == BINADE_OK
               ? address
               : 0;
}

static binade_stream stream_of(uint32_t stream)
{
    if (stream == REPLAY_STREAM_ANY)
        return BINADE_STREAM_ANY;
    if (stream == REPLAY_STREAM_DONE)
        return BINADE_STREAM_DONE;
    return bench_device_streams[stream];
}

/* That a block is refused is a bug of the pool's, and no number of such a run
 * is worth having. */
static void free_block(uint32_t thread, uint64_t address, size_t size_bytes,
                       uint32_t stream)
{
    (void)thread;
    (void)size_bytes;
    binade_status status = binade_free(pool, address, stream_of(stream));
    if (status == BINADE_OK)
        return;
    (void)fprintf(stderr, "replay: a free returned %s: %s\n",
                  binade_status_name(status), binade_last_error_message());
    abort();
}

/* The statistics count what is free, word by word. */
static uint64_t reserved_bytes(void)
{
    return binadei_segments_reserved_bytes(pool->body->segments);
}

static void measure(struct replay_memory *out)
{
    binade_stats stats = {.struct_size = sizeof(stats)};
    if (binade_pool_stats(pool, &stats) != BINADE_OK)
        abort();
    *out = (struct replay_memory){
        .handed_bytes = stats.allocated_bytes_current,
        .cached_bytes = stats.cached_bytes,
        .retiring_bytes = stats.retiring_bytes,
        .reserved_bytes = stats.reserved_bytes_current,
        .driver_calls = stats.segment_allocated + stats.segment_freed,
    };
}

static void each_segment(void (*take)(void *context, uint64_t address,
                                      uint64_t size_bytes),
                         void *context)
{
    binade_heap_snapshot *snapshot;
    size_t count;
    if (binade_heap_snapshot_create(pool, &snapshot) != BINADE_OK)
        abort();
    const binade_heap_segment *segments =
        binade_heap_snapshot_segments(snapshot, &count);
    for (size_t i = 0; i < count; i++)
        take(context, segments[i].address, segments[i].size_bytes);
    binade_heap_snapshot_destroy(snapshot);
}

static void stop(void)
{
    (void)binade_pool_destroy(pool, NULL);
    bench_device_stop();
}

#define SUBJECT(suffix, title, what, start_fn)                                 \
    const struct replay_subject replay_subject_##suffix = {                    \
        .name = title,                                                         \
        .description = what,                                                   \
        .needs_driver = true,                                                  \
        .has_limit = true,                                                     \
        .start = start_fn,                                                     \
        .attach = bench_device_attach,                                         \
        .alloc = alloc,                                                        \
        .free = free_block,                                                    \
        .reserved_bytes = reserved_bytes,                                      \
        .measure = measure,                                                    \
        .each_segment = each_segment,                                          \
        .stop = stop,                                                          \
    }

SUBJECT(binade, "binade", "Binade's pool with its default options", start);
SUBJECT(binade_nocache, "binade-nocache", "the same without thread caches",
        start_nocache);

binade_pool *replay_pool(void)
{
    return pool;
}

bool replay_pool_is_behind(const char *name)
{
    return strcmp(name, replay_subject_binade.name) == 0 ||
           strcmp(name, replay_subject_binade_nocache.name) == 0;
}
