/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A tier of pinned memory for a KV cache: kv_tier [MIB]. Blocks of 2 MiB leave the
 * device on one stream and come back on another, both ways at once. The tier is pinned
 * in a thread of the library, and its first blocks are in use long before its last.
 */
#include <moiety/moiety.h>

#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

static const size_t block_bytes = (size_t)2 << 20;

static moiety_host *tier;
static moiety_devptr leaving, arriving; /* blocks on the device */
static moiety_stream out, in;
static struct block {
    void *memory;
    moiety_event left; /* when it is whole */
} * away;
static unsigned away_count; /* at a time: all that the tier takes */
static unsigned char *results;

/* As the engine has written it before. The memory is allocated on the stream that
 * fills it, so no call waits for a copy. */
static bool send_away(unsigned number)
{
    unsigned slot = number % away_count;
    return did(moiety_host_alloc(tier, block_bytes, out, &away[slot].memory),
               "host alloc") &&
           driver_did(cuMemsetD8Async(leaving, (unsigned char)number,
                                      block_bytes, out),
                      "fill") &&
           driver_did(
               cuMemcpyDtoHAsync(away[slot].memory, leaving, block_bytes, out),
               "copy out") &&
           driver_did(cuEventRecord(away[slot].left, out), "record");
}

/* Frees at once: the memory is given out again when the copy is over. */
static bool bring_back(unsigned number)
{
    unsigned slot = number % away_count;
    return driver_did(cuStreamWaitEvent(in, away[slot].left, 0), "wait") &&
           driver_did(
               cuMemcpyHtoDAsync(arriving, away[slot].memory, block_bytes, in),
               "copy in") &&
           driver_did(cuMemcpyDtoHAsync(&results[number],
                                        arriving + block_bytes - 1, 1, in),
                      "look") &&
           did(moiety_host_free(tier, away[slot].memory, in), "host free");
}

static bool swap(unsigned count)
{
    bool is_good = true;
    for (unsigned i = 0; i < count + away_count && is_good; i++) {
        if (i >= away_count)
            is_good = bring_back(i - away_count);
        if (i < count && is_good)
            is_good = send_away(i);
    }
    is_good = driver_did(cuStreamSynchronize(in), "synchronize") && is_good;
    unsigned wrong = 0;
    for (unsigned i = 0; i < count; i++)
        wrong += results[i] != (unsigned char)i;
    printf("%u blocks went and came back, %u wrong\n", count, wrong);
    return is_good && wrong == 0;
}

static bool open_all(moiety_pool *pool, uint64_t tier_bytes)
{
    void *pinned = NULL;
    /* One is left for the results. */
    away_count = (unsigned)(tier_bytes / block_bytes) - 1;
    away = calloc(away_count, sizeof *away);
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    options.limit_bytes = tier_bytes;
    bool is_good =
        did(moiety_host_create(&options, &tier), "arena") &&
        did(moiety_host_alloc(tier, 4 * away_count, MOIETY_HOST_CPU, &pinned),
            "results") &&
        driver_did(cuStreamCreate(&out, NON_BLOCKING), "stream") &&
        driver_did(cuStreamCreate(&in, NON_BLOCKING), "stream") &&
        did(moiety_alloc(pool, block_bytes, out, &leaving), "alloc") &&
        did(moiety_alloc(pool, block_bytes, in, &arriving), "alloc");
    for (unsigned i = 0; i < away_count && is_good; i++)
        is_good = driver_did(cuEventCreate(&away[i].left, NO_TIMING), "event");
    results = is_good ? pinned : NULL;
    return is_good;
}

static bool close_all(moiety_pool *pool, moiety_growth *growth)
{
    bool is_good = driver_did(cuStreamSynchronize(out), "synchronize");
    is_good = driver_did(cuStreamSynchronize(in), "synchronize") && is_good;
    is_good =
        did(moiety_growth_destroy(growth), "end of the growth") && is_good;
    is_good = did(moiety_free(pool, leaving, out), "free") && is_good;
    is_good = did(moiety_free(pool, arriving, in), "free") && is_good;
    for (unsigned i = 0; i < away_count; i++)
        is_good = driver_did(cuEventDestroy(away[i].left), "end of an event") &&
                  is_good;
    is_good =
        did(moiety_host_destroy(tier, NULL), "end of the tier") && is_good;
    is_good =
        did(moiety_pool_destroy(pool, NULL), "end of the pool") && is_good;
    is_good = driver_did(cuStreamDestroy(out), "destroy") && is_good;
    is_good = driver_did(cuStreamDestroy(in), "destroy") && is_good;
    free(away);
    driver_close();
    return is_good;
}

int main(int argc, char **argv)
{
    uint64_t tier_bytes = strtoull(argc > 1 ? argv[1] : "64", NULL, 10) << 20;
    if (tier_bytes < 2 * block_bytes)
        return 2;
    moiety_pool *pool = NULL;
    moiety_growth *growth = NULL;
    if (!driver_open() || !did(moiety_pool_create(NULL, &pool), "pool") ||
        !open_all(pool, tier_bytes) ||
        !did(moiety_host_reserve_async(tier, tier_bytes, 0, &growth),
             "reserve"))
        return 1;
    bool is_good = swap(4 * away_count) &&
                   did(moiety_growth_wait(growth, 600000), "growth");
    fprintf(stderr, "%llu MiB were pinned beside it\n",
            (unsigned long long)moiety_growth_ready_bytes(growth) >> 20);
    return close_all(pool, growth) && is_good ? 0 : 1;
}
