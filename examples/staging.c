/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pinned staging buffers on the NUMA node next to the GPU: the arena is pinned
 * once, at the start, and each buffer is freed as soon as its copy is queued.
 * The CPU gets it again when the copy is over.
 */
#include <moiety/moiety.h>

#include <stdio.h>
#include <string.h>

#include "driver.h"

enum { BATCHES = 32 };
static const size_t batch_bytes = (size_t)1 << 20;

/* Copies one batch to `to`; returns before the copy is over. */
static bool stage(moiety_host *arena, moiety_devptr to, int value,
                  moiety_stream stream)
{
    void *buffer;
    /* MOIETY_HOST_CPU: the CPU writes first, so no copy may be pending. */
    if (!did(moiety_host_alloc(arena, batch_bytes, MOIETY_HOST_CPU, &buffer),
             "host alloc"))
        return false;
    memset(buffer, value, batch_bytes);
    bool is_queued =
        driver_did(cuMemcpyHtoDAsync(to, buffer, batch_bytes, stream), "copy");
    return did(moiety_host_free(arena, buffer, stream), "host free") &&
           is_queued;
}

static bool stage_all(moiety_host *arena, moiety_pool *pool,
                      moiety_stream stream)
{
    moiety_devptr batch;
    if (!did(moiety_alloc(pool, batch_bytes, stream, &batch), "alloc"))
        return false;
    bool is_good = true;
    for (int i = 0; i < BATCHES && is_good; i++)
        is_good = stage(arena, batch, i, stream);
    return did(moiety_free(pool, batch, stream), "free") && is_good;
}

/* Where the kernel says that the pages are. */
static bool print_place(moiety_host *arena)
{
    char report[512];
    moiety_host_stats stats = {.struct_size = sizeof stats};
    if (!did(moiety_host_report(arena, report, sizeof report), "report") ||
        !did(moiety_host_get_stats(arena, &stats), "stats"))
        return false;
    fprintf(stderr, "pinned on %s\n", report);
    printf("%llu MiB pinned, %llu pages on other nodes\n",
           (unsigned long long)stats.pinned_bytes >> 20,
           (unsigned long long)stats.pages_elsewhere);
    return true;
}

int main(void)
{
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    options.limit_bytes = UINT64_C(8) << 20; /* eight buffers for all copies */
    options.first_segment_bytes = UINT64_C(8) << 20;
    moiety_host *arena = NULL;
    moiety_pool *pool = NULL;
    moiety_stream stream = NULL;
    /* Reserve: the kernel and the driver pin now, and never during a copy. */
    bool is_good =
        driver_open() && did(moiety_host_create(&options, &arena), "arena") &&
        did(moiety_host_reserve(arena, options.limit_bytes, 0, NULL, NULL),
            "reserve") &&
        print_place(arena) && did(moiety_pool_create(NULL, &pool), "pool") &&
        driver_did(cuStreamCreate(&stream, NON_BLOCKING), "stream") &&
        stage_all(arena, pool, stream);

    /* Pools forget a stream before it is destroyed. */
    if (stream != NULL)
        is_good =
            did(moiety_pool_retire_stream(pool, stream), "retire") &&
            did(moiety_pool_retire_stream(moiety_host_pool(arena), stream),
                "retire") &&
            driver_did(cuStreamDestroy(stream), "destroy") && is_good;
    is_good = did(moiety_pool_destroy(pool, NULL), "destroy") && is_good;
    is_good = did(moiety_host_destroy(arena, NULL), "destroy") && is_good;
    return is_good ? 0 : 1;
}
