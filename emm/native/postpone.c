/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a thread puts off while it runs a function of a watcher (watch.c): frees.
 * The pool is in the middle of a call of that thread and refuses them, and who
 * drops a last reference, as the garbage collector does, can be told of nothing.
 * They are done when the thread leaves the call. Other pools' frees wait too: they
 * may want what another thread has that runs such a function itself.
 *
 * The list is the thread's own: no other thread waits in its stead.
 *
 * And what the process puts off: the ends of pools and arenas that were closed, or
 * dropped, while a graph may be captured. An end waits for all work of the context,
 * which ends a capture in any thread, and a garbage collector chooses no moment. So
 * they wait until no pool has met a capture for a while, and end when the module
 * makes, closes or trims one.
 */
#include "emm/native/native.h"

#include <stdlib.h>

struct postponed_list {
    unsigned told_depth; /* functions of watchers that are running */
    bool is_draining;
    struct native_postponed *first;
    struct native_postponed *last;
};

static _Thread_local struct postponed_list own
    __attribute__((tls_model("initial-exec")));

void native_told_begin(void)
{
    own.told_depth++;
}

void native_told_end(void)
{
    own.told_depth--;
}

bool native_is_told(void)
{
    return own.told_depth > 0;
}

void native_postpone(struct native_postponed *entry, void *object,
                     void (*finish)(void *object))
{
    *entry = (struct native_postponed){.object = object, .finish = finish};
    /* In order: a tenant ends behind its blocks. */
    if (own.first)
        own.last->next = entry;
    else
        own.first = entry;
    own.last = entry;
}

void native_do_postponed(void)
{
    if (!own.first || own.told_depth || own.is_draining)
        return;
    /* A free may trim, and so postpone another one, for this loop. */
    own.is_draining = true;
    while (own.first) {
        struct native_postponed *entry = own.first;
        own.first = entry->next;
        entry->finish(entry->object);
    }
    own.is_draining = false;
}

/* --- ends of pools --- */

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
