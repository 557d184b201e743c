/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Binade: a pool with its default options.
 */
#include <inttypes.h>
#include <stdio.h>

#include <binade/pool.h>
#include <binade/stats.h>

#include "bench/server/subjects/subject.h"

static binade_pool *pool;
static const struct server_device *on;

static binade_status start(const struct server_device *device)
{
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    options.device = device->index;
    on = device;
    return binade_pool_create(&options, &pool);
}

static binade_status alloc(size_t size_bytes, unsigned stream, CUdeviceptr *out)
{
    return binade_alloc(pool, size_bytes, on->streams[stream], out);
}

static binade_status free_block(CUdeviceptr address, size_t size_bytes,
                                unsigned stream)
{
    (void)size_bytes; /* the faster sized free is not used: few programs can */
    return binade_free(pool, address, on->streams[stream]);
}

/* All 0 where the pool will not say. */
static binade_stats stats_now(void)
{
    binade_stats stats = {.struct_size = sizeof(stats)};
    if (binade_pool_stats(pool, &stats) != BINADE_OK)
        return (binade_stats){0};
    return stats;
}

static uint64_t peak_bytes(void)
{
    return stats_now().reserved_bytes_peak;
}

static void describe(char *out, size_t size_bytes)
{
    binade_stats stats = stats_now();
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
    binade_leaks leaks = {.struct_size = sizeof(leaks)};
    binade_status status = binade_pool_destroy(pool, &leaks);
    return status == BINADE_OK ? leaks.bytes : UINT64_MAX;
}

const struct server_subject server_subject_binade = {
    .name = "binade",
    .description = "Binade's pool with its default options",
    .is_default = true,
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .peak_bytes = peak_bytes,
    .describe = describe,
    .stop = stop,
};
