/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pools and arenas that were closed, or dropped, while a graph may be captured.
 * Their end waits for all work of the context, which ends a capture in any thread,
 * and a garbage collector chooses no moment. So they wait here until no pool has
 * met a capture for a while, and end when the module makes, closes or trims one.
 */
#include "emm/native/native.h"

#include <stdlib.h>

struct parked {
    struct parked *next;
    moiety_pool *pool;
    moiety_host *host; /* NULL: it is no arena's */
};

/* All interpreters' of the process; the GIL, or park_mutex. */
static struct parked *parked_pools;
static struct native_mutex park_mutex;

/* A stream is named to the pool, and so seen to capture, more often. */
#define LATELY_NS UINT64_C(2000000000)

bool native_is_capture_near(void)
{
    return moiety_capture_age_ns() < LATELY_NS;
}

bool native_is_capture_seen(void)
{
    uint64_t age_ns = moiety_capture_age_ns();
    return age_ns && age_ns < LATELY_NS;
}

static void park_put(struct parked *parked)
{
    native_mutex_lock(&park_mutex);
    parked->next = parked_pools;
    parked_pools = parked;
    native_mutex_unlock(&park_mutex);
}

void native_park(moiety_pool *pool, moiety_host *host)
{
    struct parked *parked = malloc(sizeof *parked);
    if (!parked)
        return; /* it keeps its memory for good: better than a graph that fails */
    *parked = (struct parked){.pool = pool, .host = host};
    park_put(parked);
}

static struct parked *park_take_all(void)
{
    native_mutex_lock(&park_mutex);
    struct parked *all = parked_pools;
    parked_pools = NULL;
    native_mutex_unlock(&park_mutex);
    return all;
}

void native_park_clear(void)
{
    /* Each is nobody else's meanwhile. */
    struct parked *all = native_is_capture_near() ? NULL : park_take_all();
    while (all) {
        struct parked *parked = all;
        moiety_status status;
        all = parked->next;
        Py_BEGIN_ALLOW_THREADS;
        status = parked->host ? moiety_host_destroy(parked->host, NULL)
                              : moiety_pool_destroy(parked->pool, NULL);
        Py_END_ALLOW_THREADS;
        if (status == MOIETY_E_BUSY)
            park_put(parked);
        else
            free(parked);
    }
}
