/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Moiety's pool, as a program would use it, over the driver's memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <moiety/heap.h>
#include <moiety/moiety.h>
#include <moiety/tenant.h>

#include "bench/base/device.h"
#include "bench/subjects/pool.h"
#include "bench/subjects/segments.h"
#include "bench/subjects/subject.h"
#include "pool/core/body.h"

static moiety_pool *pool;
static bool has_tenant; /* set before the pool is made */
static moiety_tenant tenant;
static char reason[1024];

static moiety_status make_pool(const moiety_pool_options *options)
{
    const moiety_tenant_options named = {.struct_size = sizeof named,
                                         .name = "bench"};
    moiety_status status = moiety_pool_create(options, &pool);
    return status == MOIETY_OK && has_tenant
               ? moiety_tenant_create(pool, &named, &tenant)
               : status;
}

static const char *start_with(moiety_pool_options *options,
                              const struct subject_setup *setup)
{
    const char *why = subject_streams_start(setup);
    if (why)
        return why;
    options->limit_bytes = setup->limit_bytes;
    if (make_pool(options) == MOIETY_OK)
        return NULL;
    (void)snprintf(reason, sizeof(reason), "%s", moiety_last_error_message());
    bench_device_stop();
    return reason;
}

/* Results compare with memory of the driver, unless they say otherwise. */
static moiety_pool_options of_driver(void)
{
    const moiety_pool_options options = {.struct_size = sizeof options,
                                         .memory = MOIETY_MEMORY_DRIVER};
    return options;
}

static const char *start(const struct subject_setup *setup)
{
    moiety_pool_options options = of_driver();
    return start_with(&options, setup);
}

static const char *start_nocache(const struct subject_setup *setup)
{
    moiety_pool_options options = of_driver();
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    return start_with(&options, setup);
}

static const char *start_mapped(const struct subject_setup *setup)
{
    moiety_pool_options options = of_driver();
    options.memory = MOIETY_MEMORY_MAPPED;
    return start_with(&options, setup);
}

static const char *start_history(const struct subject_setup *setup)
{
    moiety_pool_options options = of_driver();
    options.history_entries = 4096;
    return start_with(&options, setup);
}

static const char *start_tenant(const struct subject_setup *setup)
{
    moiety_pool_options options = of_driver();
    has_tenant = true;
    return start_with(&options, setup);
}

static uint64_t alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    moiety_devptr address;
    return moiety_alloc(pool, size_bytes, bench_device_streams[stream],
                        &address) == MOIETY_OK
               ? address
               : 0;
}

static uint64_t alloc_tenant(uint32_t thread, size_t size_bytes,
                             uint32_t stream)
{
    (void)thread;
    const moiety_alloc_options options = {.struct_size = sizeof options,
                                          .tenant = tenant};
    moiety_devptr address;
    return moiety_alloc_with(pool, size_bytes, bench_device_streams[stream],
                             &options, &address) == MOIETY_OK
               ? address
               : 0;
}

/* That a block is refused is a bug of the pool's, and no number of such a run
 * is worth having. */
static void refuse(moiety_status status)
{
    (void)fprintf(stderr, "bench: a free returned %s: %s\n",
                  moiety_status_name(status), moiety_last_error_message());
    abort();
}

static void free_block(uint32_t thread, uint64_t address, size_t size_bytes,
                       uint32_t stream)
{
    (void)thread;
    (void)size_bytes;
    moiety_status status =
        moiety_free(pool, address, bench_device_streams[stream]);
    if (status != MOIETY_OK)
        refuse(status);
}

static void free_sized(uint32_t thread, uint64_t address, size_t size_bytes,
                       uint32_t stream)
{
    (void)thread;
    moiety_status status = moiety_free_sized(pool, address, size_bytes,
                                             bench_device_streams[stream]);
    if (status != MOIETY_OK)
        refuse(status);
}

/* Of a trace, which may name no stream. */
static void free_traced(uint32_t thread, uint64_t address, size_t size_bytes,
                        uint32_t stream)
{
    if (stream < SUBJECT_STREAM_DONE) {
        free_block(thread, address, size_bytes, stream);
        return;
    }
    moiety_status status = moiety_free(
        pool, address,
        stream == SUBJECT_STREAM_ANY ? MOIETY_STREAM_ANY : MOIETY_STREAM_DONE);
    if (status != MOIETY_OK)
        refuse(status);
}

static void count(uint64_t *out_hits, uint64_t *out_misses)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    *out_hits = 0;
    *out_misses = 0;
    if (moiety_pool_get_stats(pool, &stats) != MOIETY_OK)
        return;
    *out_hits = stats.cache_hits;
    *out_misses = stats.cache_misses;
}

/* The statistics count what is free, word by word. */
static uint64_t reserved_bytes(void)
{
    return moietyi_segments_reserved_bytes(pool->body->segments);
}

static void measure(struct subject_memory *out)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    if (moiety_pool_get_stats(pool, &stats) != MOIETY_OK)
        abort();
    *out = (struct subject_memory){
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
    moiety_heap_snapshot *snapshot;
    size_t count;
    if (moiety_heap_snapshot_create(pool, &snapshot) != MOIETY_OK)
        abort();
    const moiety_heap_segment *segments =
        moiety_heap_snapshot_segments(snapshot, &count);
    for (size_t i = 0; i < count; i++)
        take(context, segments[i].address, segments[i].size_bytes);
    moiety_heap_snapshot_destroy(snapshot);
}

static void stop(void)
{
    (void)moiety_pool_destroy(pool, NULL);
    bench_device_stop();
}

/* What workloads run on: the calls alone. */
#define WORKLOAD(suffix, title, what, start_fn, alloc_fn, free_fn)             \
    const struct subject subject_workload_##suffix = {                         \
        .name = title,                                                         \
        .description = what,                                                   \
        .has_streams = true,                                                   \
        .needs_driver = true,                                                  \
        .start = start_fn,                                                     \
        .alloc = alloc_fn,                                                     \
        .free = free_fn,                                                       \
        .count = count,                                                        \
        .stop = stop,                                                          \
    }

WORKLOAD(moiety, "moiety", "Moiety: moiety_alloc() and moiety_free()", start,
         alloc, free_block);
WORKLOAD(moiety_sized, "moiety_sized",
         "Moiety: moiety_alloc() and moiety_free_sized()", start, alloc,
         free_sized);
WORKLOAD(moiety_nocache, "moiety_nocache", "Moiety without caches of threads",
         start_nocache, alloc, free_block);
WORKLOAD(moiety_mapped, "moiety_mapped",
         "Moiety with memory that it maps itself: MOIETY_MEMORY_MAPPED",
         start_mapped, alloc, free_block);
WORKLOAD(moiety_history, "moiety+history",
         "Moiety with a history of 4096 operations a thread", start_history,
         alloc, free_block);
WORKLOAD(moiety_tenant, "moiety+tenant",
         "Moiety with all blocks a tenant's, without a budget", start_tenant,
         alloc_tenant, free_block);

/* What traces are replayed on. */
#define REPLAYED(suffix, title, what, start_fn)                                \
    const struct subject subject_##suffix = {                                  \
        .name = title,                                                         \
        .description = what,                                                   \
        .needs_driver = true,                                                  \
        .has_limit = true,                                                     \
        .keeps_any = true,                                                     \
        .start = start_fn,                                                     \
        .attach = bench_device_attach,                                         \
        .alloc = alloc,                                                        \
        .free = free_traced,                                                   \
        .reserved_bytes = reserved_bytes,                                      \
        .measure = measure,                                                    \
        .each_segment = each_segment,                                          \
        .stop = stop,                                                          \
    }

REPLAYED(moiety, "moiety", "Moiety's pool on memory of the driver", start);
REPLAYED(moiety_nocache, "moiety-nocache", "the same without thread caches",
         start_nocache);
REPLAYED(moiety_mapped, "moiety-mapped",
         "Moiety's pool with memory that it maps, and whose free pieces move",
         start_mapped);

moiety_pool *subject_moiety_pool(void)
{
    return pool;
}

bool subject_is_moiety(const char *name)
{
    return strcmp(name, subject_moiety.name) == 0 ||
           strcmp(name, subject_moiety_nocache.name) == 0 ||
           strcmp(name, subject_moiety_mapped.name) == 0;
}
