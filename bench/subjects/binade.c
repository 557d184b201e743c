/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Binade's pool, as a program would use it: with its default options, over the
 * driver's memory, with real streams. It grows while it is warmed up; what a
 * row shows is a pool that has its memory.
 */
#include <stdio.h>
#include <stdlib.h>

#include <binade/binade.h>

#include "bench/base/device.h"
#include "bench/subjects/subject.h"

static binade_pool *pool;
static bool has_tenant; /* set before the pool is made */
static binade_tenant tenant;
static char reason[1024];

static binade_status make_pool(const binade_pool_options *options)
{
    binade_status status = binade_pool_create(options, &pool);
    return status == BINADE_OK && has_tenant
               ? binade_tenant_create(pool, "bench", 0, &tenant)
               : status;
}

static const char *start_with(const binade_pool_options *options,
                              unsigned stream_count)
{
    const char *why = bench_device_start(stream_count);
    if (why)
        return why;
    if (make_pool(options) == BINADE_OK)
        return NULL;
    (void)snprintf(reason, sizeof(reason), "%s", binade_last_error_message());
    return reason;
}

static const char *start(unsigned thread_count, unsigned stream_count)
{
    (void)thread_count;
    return start_with(NULL, stream_count);
}

static const char *start_nocache(unsigned thread_count, unsigned stream_count)
{
    (void)thread_count;
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    options.thread_cache_bytes = 0;
    return start_with(&options, stream_count);
}

static uint64_t alloc(unsigned thread, size_t size_bytes, unsigned stream)
{
    (void)thread;
    binade_devptr address;
    return binade_alloc(pool, size_bytes, bench_device_streams[stream],
                        &address) == BINADE_OK
               ? address
               : 0;
}

static uint64_t alloc_tenant(unsigned thread, size_t size_bytes,
                             unsigned stream)
{
    (void)thread;
    binade_devptr address;
    return binade_tenant_alloc(tenant, size_bytes, bench_device_streams[stream],
                               &address) == BINADE_OK
               ? address
               : 0;
}

/* That a block is refused is a bug of the pool's, and no number of such a run
 * is worth having. */
static void refuse(binade_status status)
{
    (void)fprintf(stderr, "bench: a free returned %s: %s\n",
                  binade_status_name(status), binade_last_error_message());
    abort();
}

static void free_block(unsigned thread, uint64_t address, size_t size_bytes,
                       unsigned stream)
{
    (void)thread;
    (void)size_bytes;
    binade_status status =
        binade_free(pool, address, bench_device_streams[stream]);
    if (status != BINADE_OK)
        refuse(status);
}

static void free_sized(unsigned thread, uint64_t address, size_t size_bytes,
                       unsigned stream)
{
    (void)thread;
    binade_status status = binade_free_sized(pool, address, size_bytes,
                                             bench_device_streams[stream]);
    if (status != BINADE_OK)
        refuse(status);
}

static void count(uint64_t *out_hits, uint64_t *out_misses)
{
    binade_stats stats = {.struct_size = sizeof(stats)};
    *out_hits = 0;
    *out_misses = 0;
    if (binade_pool_stats(pool, &stats) != BINADE_OK)
        return;
    *out_hits = stats.cache_hits;
    *out_misses = stats.cache_misses;
}

static void stop(void)
{
    (void)binade_pool_destroy(pool, NULL);
    bench_device_stop();
}

const struct subject subject_binade = {
    .name = "binade",
    .description = "Binade: binade_alloc() and binade_free()",
    .has_streams = true,
    .has_driver = true,
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .count = count,
    .stop = stop,
};

const struct subject subject_binade_sized = {
    .name = "binade_sized",
    .description = "Binade: binade_alloc() and binade_free_sized()",
    .has_streams = true,
    .has_driver = true,
    .start = start,
    .alloc = alloc,
    .free = free_sized,
    .count = count,
    .stop = stop,
};

const struct subject subject_binade_nocache = {
    .name = "binade_nocache",
    .description = "Binade without caches: thread_cache_bytes is 0",
    .has_streams = true,
    .has_driver = true,
    .start = start_nocache,
    .alloc = alloc,
    .free = free_block,
    .count = count,
    .stop = stop,
};

#define VARIANT(variant, what, setting, alloc_fn, free_fn)                     \
    static const char *start_##variant(unsigned thread_count,                  \
                                       unsigned stream_count)                  \
    {                                                                          \
        (void)thread_count;                                                    \
        binade_pool_options options = BINADE_POOL_OPTIONS_INIT;                \
        setting;                                                               \
        return start_with(&options, stream_count);                             \
    }                                                                          \
    const struct subject subject_binade_##variant = {                          \
        .name = "binade+" #variant,                                            \
        .description = "Binade with " what,                                    \
        .has_streams = true,                                                   \
        .has_driver = true,                                                    \
        .start = start_##variant,                                              \
        .alloc = alloc_fn,                                                     \
        .free = free_fn,                                                       \
        .count = count,                                                        \
        .stop = stop,                                                          \
    };
#include "bench/subjects/binade_variants.inc"
#undef VARIANT
