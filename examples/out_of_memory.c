/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool at its limit: a callback gives up what the program only keeps for
 * speed, and when that does not suffice a report says where the memory is.
 */
#include <binade/binade.h>

#include <pthread.h>
#include <stdio.h>

#include "driver.h"

#define MIB (UINT64_C(1) << 20)
#define ENTRY_BYTES (16 * MIB)
enum { ENTRIES = 3 };

/* A cache of the program's: weights that it could load again. */
struct weights {
    pthread_mutex_t lock; /* several threads may be in the callback at once */
    binade_devptr blocks[ENTRIES];
    unsigned count;
};

static binade_devptr take_one(struct weights *weights)
{
    pthread_mutex_lock(&weights->lock);
    binade_devptr block =
        weights->count > 0 ? weights->blocks[--weights->count] : 0;
    pthread_mutex_unlock(&weights->lock);
    return block;
}

/* Called by the pool, once for each allocation that would fail; frees as much
 * as that needs, and says whether it freed anything. */
static int evict(binade_pool *pool, uint64_t requested_bytes, void *user)
{
    uint64_t freed_bytes = 0;
    binade_devptr block;
    while (freed_bytes < requested_bytes && (block = take_one(user)) != 0) {
        if (!did(binade_free(pool, block, BINADE_STREAM_ANY), "evict"))
            break;
        freed_bytes += ENTRY_BYTES;
    }
    return freed_bytes > 0;
}

static bool fill(binade_pool *pool, struct weights *weights)
{
    while (weights->count < ENTRIES) {
        if (!did(binade_alloc(pool, ENTRY_BYTES, BINADE_STREAM_ANY,
                              &weights->blocks[weights->count]),
                 "fill"))
            return false;
        weights->count++;
    }
    return true;
}

static bool print_report(binade_pool *pool)
{
    binade_oom_report report = {.struct_size = sizeof report};
    char text[4096];
    if (!did(binade_last_oom(pool, &report), "report"))
        return false;
    binade_oom_text(&report, text, sizeof text);
    fprintf(stderr, "%s", text); /* the whole of it, for a log */
    printf("%llu MiB asked for, %llu of %llu MiB in use\n",
           (unsigned long long)(report.requested_bytes / MIB),
           (unsigned long long)(report.live_bytes / MIB),
           (unsigned long long)(report.limit_bytes / MIB));
    return true;
}

int main(void)
{
    struct weights weights = {.lock = PTHREAD_MUTEX_INITIALIZER};
    binade_pool *pool;
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    options.limit_bytes = 64 * MIB;
    options.wait_ms = 10; /* this program has no work to wait for */
    binade_devptr work, more;
    if (!did(binade_pool_create(&options, &pool), "create") ||
        !did(binade_pool_add_oom_callback(pool, evict, &weights), "callback") ||
        !fill(pool, &weights) ||
        !did(binade_alloc(pool, 24 * MIB, BINADE_STREAM_ANY, &work), "alloc"))
        return 1;
    printf("%u of %d cached blocks were evicted\n", ENTRIES - weights.count,
           ENTRIES);
    /* Nothing can serve this, so the program goes on without it. */
    if (binade_alloc(pool, 48 * MIB, BINADE_STREAM_ANY, &more) !=
            BINADE_E_NO_DEVICE_MEMORY ||
        !print_report(pool))
        return 1;
    return did(binade_free(pool, work, BINADE_STREAM_ANY), "free") &&
                   did(binade_pool_destroy(pool, NULL), "destroy")
               ? 0
               : 1;
}
