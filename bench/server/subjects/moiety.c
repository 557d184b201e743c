/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Moiety: a pool with its default options.
 */
#include <inttypes.h>
#include <stdio.h>

#include <moiety/pool.h>
#include <moiety/stats.h>

#include "bench/server/subjects/subject.h"

static moiety_pool *pool;
static const struct server_device *on;

static moiety_status start(const struct server_device *device)
{
    moiety_pool_options options = {.struct_size = sizeof options,
                                   .memory = MOIETY_MEMORY_DRIVER};
    options.device = device->index;
    on = device;
    return moiety_pool_create(&options, &pool);
}

static moiety_status alloc(size_t size_bytes, unsigned stream, CUdeviceptr *out)
{
    return moiety_alloc(pool, size_bytes, on->streams[stream], out);
}

static moiety_status free_block(CUdeviceptr address, size_t size_bytes,
                                unsigned stream)
{
    (void)size_bytes; /* the faster sized free is not used: few programs can */
    return moiety_free(pool, address, on->streams[stream]);
}

/* All 0 where the pool will not say. */
static moiety_stats stats_now(void)
{
    moiety_stats stats = {.struct_size = sizeof(stats)};
    if (moiety_pool_stats(pool, &stats) != MOIETY_OK)
        return (moiety_stats){0};
    return stats;
}

static uint64_t peak_bytes(void)
{
    return stats_now().reserved_bytes_peak;
}

static void describe(char *out, size_t size_bytes)
{
    moiety_stats stats = stats_now();
    uint64_t allocations = stats.cache_hits + stats.cache_misses;
    double hit_rate =
        allocations ? (double)stats.cache_hits / (double)allocations : 0;
    (void)snprintf(out, size_bytes,
                   "%.2f %% of %" PRIu64 " allocations from thread caches, "
                   "%" PRIu64 " events, %" PRIu64 " segments",
                   100 * hit_rate, allocations, stats.events_recorded,
                   stats.segment_allocated);
}

/* A pool that cannot say what was lost has lost something. */
static uint64_t stop(void)
{
    moiety_leaks leaks = {.struct_size = sizeof(leaks)};
    moiety_status status = moiety_pool_destroy(pool, &leaks);
    return status == MOIETY_OK ? leaks.bytes : UINT64_MAX;
}

const struct server_subject server_subject_moiety = {
    .name = "moiety",
    .description = "Moiety's pool with its default options",
    .is_default = true,
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .peak_bytes = peak_bytes,
    .describe = describe,
    .stop = stop,
};
