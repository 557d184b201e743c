/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A host arena: a pool over a source of pinned memory.
 */
#ifndef BINADE_NUMA_ARENA_ARENA_H_
#define BINADE_NUMA_ARENA_ARENA_H_

#include "binade/host.h"
#include "numa/pinned/source.h"
#include "numa/topology/policy.h"
#include "pool/driver/context.h"

/* Constant once it is made, but for what the source and the pool guard. It
 * outlives the arena, as the pool's handle does: so a late call finds out that
 * it is late. */
struct binade_host {
    binade_pool *pool;             /* its handle, also of one that is gone */
    struct binadei_pinned *pinned; /* NULL: the arena was destroyed */
    struct binade_host *next_gone; /* of all that were destroyed */
    uint64_t limit_bytes;
    struct binadei_placement place;
    const struct binadei_driver *driver;
    CUdevice device;
    bool has_primary; /* the context is retained */
    struct binadei_context own_context;
    /* Edge: none; relaxed: the home's, and nobody reads it. */
    _Atomic uint64_t mark;
};

/* BINADE_OK, or BINADE_E_INVALID for an arena that is NULL or was destroyed, with
 * the name of the function in the message. */
BINADE_MUST_USE binade_status binadei_host_check(const struct binade_host *host,
                                                 const char *function);

#endif
