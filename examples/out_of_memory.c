/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool at its limit: a callback gives up what the program only keeps for
 * speed, and when that does not suffice a report says where the memory is.
 */
#include <moiety/moiety.h>
#include <moiety/oom.h>

#include <pthread.h>
#include <stdio.h>

#include "driver.h"

#define MIB (UINT64_C(1) << 20)
#define ENTRY_BYTES (16 * MIB)
enum { ENTRIES = 3 };

/* A cache of the program's: weights that it could load again. */
struct weights {
    pthread_mutex_t lock; /* several threads may be in the callback at once */
    moiety_devptr blocks[ENTRIES];
    unsigned count;
};

static moiety_devptr take_one(struct weights *weights)
{
    pthread_mutex_lock(&weights->lock);
    moiety_devptr block =
        weights->count > 0 ? weights->blocks[--weights->count] : 0;
    pthread_mutex_unlock(&weights->lock);
    return block;
}

/* Called by the pool when an allocation would fail, and again for as long as it
 * frees; frees as much as that needs, and says whether it freed anything. */
static int evict(moiety_pool *pool, uint64_t requested_bytes, void *user)
{
    uint64_t freed_bytes = 0;
    moiety_devptr block;
    while (freed_bytes < requested_bytes && (block = take_one(user)) != 0) {
        if (!did(moiety_free(pool, block, MOIETY_STREAM_ANY), "evict"))
            break;
        freed_bytes += ENTRY_BYTES;
    }
    return freed_bytes > 0;
}

static bool fill(moiety_pool *pool, struct weights *weights)
{
    while (weights->count < ENTRIES) {
        if (!did(moiety_alloc(pool, ENTRY_BYTES, MOIETY_STREAM_ANY,
                              &weights->blocks[weights->count]),
                 "fill"))
            return false;
        weights->count++;
    }
    return true;
}

static bool print_report(moiety_pool *pool)
{
    moiety_oom_report report = {.struct_size = sizeof report};
    char text[4096];
    if (!did(moiety_pool_last_oom(pool, &report), "report"))
        return false;
    moiety_oom_text(&report, text, sizeof text);
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
    moiety_pool *pool;
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.limit_bytes = 64 * MIB;
    options.wait_ms = 10; /* this program has no work to wait for */
    moiety_devptr work, more;
    if (!did(moiety_pool_create(&options, &pool), "create") ||
        !did(moiety_pool_add_oom_callback(pool, evict, &weights), "callback") ||
        !fill(pool, &weights) ||
        !did(moiety_alloc(pool, 24 * MIB, MOIETY_STREAM_ANY, &work), "alloc"))
        return 1;
    printf("%u of %d cached blocks were evicted\n", ENTRIES - weights.count,
           ENTRIES);
    /* Nothing can serve this, so the program goes on without it. */
    if (moiety_alloc(pool, 48 * MIB, MOIETY_STREAM_ANY, &more) !=
            MOIETY_E_NO_DEVICE_MEMORY ||
        !print_report(pool))
        return 1;
    return did(moiety_free(pool, work, MOIETY_STREAM_ANY), "free") &&
                   did(moiety_pool_destroy(pool, NULL), "destroy")
               ? 0
               : 1;
}
