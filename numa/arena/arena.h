/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A host arena: a pool over a source of pinned memory.
 */
#ifndef MOIETY_NUMA_ARENA_ARENA_H_
#define MOIETY_NUMA_ARENA_ARENA_H_

#include "moiety/host.h"
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
    struct moietyi_placement place;
    const struct moietyi_driver *driver;
    CUdevice device;
    bool has_primary; /* the context is retained */
    struct moietyi_context own_context;
    /* Edge: none; relaxed: the home's, and nobody reads it. */
    _Atomic uint64_t mark;
};

/* MOIETY_OK, or MOIETY_E_INVALID for an arena that is NULL or was destroyed, with
 * the name of the function in the message. */
MOIETY_MUST_USE moiety_status moietyi_host_check(const struct moiety_host *host,
                                                 const char *function);

#endif
