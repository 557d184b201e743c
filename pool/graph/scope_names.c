/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of all scopes of the process, and their pools. A caller's number
 * is looked up here and not followed, so that it may be that of a scope, or of a
 * pool, that is gone. A pool's handle outlives the pool.
 */
#include <pthread.h>
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/base/lock.h"
#include "pool/graph/scopes.h"

#define BUCKETS 64U

struct name {
    struct name *next;
    uint64_t number;
    struct moiety_pool *pool;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct name *buckets[BUCKETS]; /* the lock */
/* Edge: none; relaxed: only that each is given once. */
static _Atomic uint64_t last_number;

uint64_t moietyi_scope_next_number(void)
{
    return atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
}

/* Lock held. */
static struct name **scope_names_find(uint64_t number)
{
    struct name **at = &buckets[number % BUCKETS];
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

bool moietyi_scope_name(uint64_t number, struct moiety_pool *pool)
{
    struct name *name = malloc(sizeof(*name));
    if (!name)
        return false;
    *name = (struct name){NULL, number, pool};
    moietyi_lock(&lock);
    *scope_names_find(number) = name;
    moietyi_unlock(&lock);
    return true;
}

void moietyi_scope_unname(uint64_t number)
{
    moietyi_lock(&lock);
    struct name **at = scope_names_find(number);
    struct name *name = *at;
    if (name)
        *at = name->next;
    moietyi_unlock(&lock);
    free(name);
}

moiety_status moietyi_scope_pool(uint64_t number, const char *what,
                                 struct moiety_pool **out)
{
    struct moietyi_thread *thread;
    /* As of no pool: a signal handler that comes while the lock is held is
     * refused. */
    moiety_status status = moietyi_thread_enter(&thread);
    if (status != MOIETY_OK)
        return status;
    moietyi_lock(&lock);
    const struct name *name = *scope_names_find(number);
    *out = name ? name->pool : NULL;
    moietyi_unlock(&lock);
    moietyi_thread_leave(thread);
    if (*out)
        return MOIETY_OK;
    /* relaxed: see the number. */
    return number && number <= atomic_load_explicit(&last_number,
                                                    memory_order_relaxed)
               ? moietyi_fail(MOIETY_E_DESTROYED,
                              "no such %s: it was released before, or its pool "
                              "is gone",
                              what)
               : moietyi_fail(MOIETY_E_INVALID, "no such %s", what);
}
