/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pinned staging buffers on the NUMA node next to the GPU: the arena is pinned
 * once, at the start, and each buffer is freed as soon as its copy is queued.
 * The CPU gets it again when the copy is over.
 */
#include <binade/binade.h>

#include <stdio.h>
#include <string.h>

#include "driver.h"

enum { BATCHES = 32 };
static const size_t batch_bytes = (size_t)1 << 20;

/* Copies one batch to `to`; returns before the copy is over. */
static bool stage(binade_host *arena, binade_devptr to, int value,
                  binade_stream stream)
{
    void *buffer;
    /* BINADE_HOST_CPU: the CPU writes first, so no copy may be pending. */
    if (!did(binade_host_alloc(arena, batch_bytes, BINADE_HOST_CPU, &buffer),
             "host alloc"))
        return false;
    memset(buffer, value, batch_bytes);
    bool is_queued =
        driver_did(cuMemcpyHtoDAsync(to, buffer, batch_bytes, stream), "copy");
    return did(binade_host_free(arena, buffer, stream), "host free") &&
           is_queued;
}

static bool stage_all(binade_host *arena, binade_pool *pool,
                      binade_stream stream)
{
    binade_devptr batch;
    if (!did(binade_alloc(pool, batch_bytes, stream, &batch), "alloc"))
        return false;
    bool is_good = true;
    for (int i = 0; i < BATCHES && is_good; i++)
        is_good = stage(arena, batch, i, stream);
    return did(binade_free(pool, batch, stream), "free") && is_good;
}

/* Where the kernel says that the pages are. */
static bool print_place(binade_host *arena)
{
    char report[512];
    binade_host_stats stats = {.struct_size = sizeof stats};
    if (!did(binade_host_report(arena, report, sizeof report), "report") ||
        !did(binade_host_stats_get(arena, &stats), "stats"))
        return false;
    fprintf(stderr, "pinned on %s\n", report);
    printf("%llu MiB pinned, %llu pages on other nodes\n",
           (unsigned long long)stats.pinned_bytes >> 20,
           (unsigned long long)stats.pages_elsewhere);
    return true;
}

int main(void)
{
    binade_host_options options = BINADE_HOST_OPTIONS_INIT;
    options.limit_bytes = UINT64_C(8) << 20; /* eight buffers for all copies */
    options.first_segment_bytes = UINT64_C(8) << 20;
    binade_host *arena = NULL;
    binade_pool *pool = NULL;
    binade_stream stream = NULL;
    /* Reserve: the kernel and the driver pin now, and never during a copy. */
    bool is_good =
        driver_open() && did(binade_host_create(&options, &arena), "arena") &&
        did(binade_host_reserve(arena, options.limit_bytes, 0, NULL, NULL),
            "reserve") &&
        print_place(arena) && did(binade_pool_create(NULL, &pool), "pool") &&
        driver_did(cuStreamCreate(&stream, NON_BLOCKING), "stream") &&
        stage_all(arena, pool, stream);

    /* Pools forget a stream before it is destroyed. */
    if (stream != NULL)
        is_good = did(binade_stream_retire(pool, stream), "retire") &&
                  did(binade_stream_retire(binade_host_pool(arena), stream),
                      "retire") &&
                  driver_did(cuStreamDestroy(stream), "destroy") && is_good;
    is_good = did(binade_pool_destroy(pool, NULL), "destroy") && is_good;
    is_good = did(binade_host_destroy(arena, NULL), "destroy") && is_good;
    return is_good ? 0 : 1;
}
