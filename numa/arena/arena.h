/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A host arena: a pool over a source of pinned memory.
 */
#ifndef MOIETY_NUMA_ARENA_ARENA_H_
#define MOIETY_NUMA_ARENA_ARENA_H_

#include <pthread.h>

#include "moiety/host.h"
#include "numa/arena/pieces.h"
#include "numa/pinned/source.h"
#include "numa/topology/policy.h"
#include "pool/driver/context.h"

/* Constant once it is made, except for what the source and the pool guard. It
 * outlives the arena, like the pool's handle, so that a late call is
 * recognised. */
struct moiety_host {
    moiety_pool *pool;             /* its handle, also of one that is gone */
    struct moietyi_pinned *pinned; /* NULL: the arena was destroyed */
    struct moiety_host *next_gone; /* of all that were destroyed */
    uint64_t limit_bytes;
    struct moietyi_pieces pieces;
    struct moietyi_placement place;
    const struct moietyi_driver *driver;
    CUdevice device;
    bool has_primary; /* the context is retained */
    struct moietyi_context own_context;
    /* Edge: none; relaxed: the home's, and nobody reads it. */
    _Atomic uint64_t mark;
    /* Edge: none; relaxed: a number that orders nothing. Of moiety_host_cancel(),
     * also by a signal handler. */
    moietyi_atomic_word cancels;
    pthread_mutex_t lock;
    pthread_cond_t
        growth_left; /* by its thread, which uses the arena no more */
    /* Under the lock. */
    struct moiety_growth *growths; /* whose handles there are */
    uint32_t reserve_count;        /* that are under way */
    bool is_ending;
};

/* MOIETY_OK, or MOIETY_E_INVALID for an arena that is NULL or was destroyed, with
 * the name of the function in the message. */
MOIETY_MUST_USE moiety_status moietyi_host_check(const struct moiety_host *host,
                                                 const char *function);

/* For a call that uses the arena's parts also between two calls of the pool: the
 * arena does not end meanwhile. MOIETY_OK, or MOIETY_E_DESTROYED: then there is
 * nothing to leave. */
MOIETY_MUST_USE moiety_status moietyi_host_enter(struct moiety_host *host,
                                                 const char *function);
void moietyi_host_leave(struct moiety_host *host);

#endif
