/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool beside its caches: what every part of the facade may know of it.
 * Features hang here by pointers to their own state, which the core never
 * looks into, and by one table of operations.
 */
#ifndef MOIETY_POOL_CORE_BODY_H_
#define MOIETY_POOL_CORE_BODY_H_

#include <stdatomic.h>
#include <stdbool.h>

#include "moiety/pool.h"
#include "pool/cache/cache.h"
#include "pool/core/exposed.h"
#include "pool/driver/context.h"
#include "pool/segment/mapper.h"
#include "pool/segment/segment.h"

struct moietyi_pool_ops;

struct moietyi_pool_body {
    const struct moietyi_driver *driver;
    /* By moietyi_options_resolve(): 0 is none. `memory` is AUTO no more once the
     * pool is made. */
    moiety_pool_options options;
    uint64_t first_limit_bytes; /* when it was made */
    uint32_t page_capacity;     /* of each offset space */
    CUdevice device;
    bool has_primary; /* the context is retained */
    CUcontext context;
    struct moietyi_context own_context; /* the same, and whether it is lost */
    struct moiety_pool *pool;
    moiety_source source;         /* the caller's, if it has one */
    struct moietyi_mapper mapper; /* of a pool whose memory is mapped, */
    struct moietyi_mapped_device mapped_device; /* and its context */
    bool may_fall_back; /* to cuMemAlloc, where the driver refuses to map */
    struct moietyi_space *space;
    struct moietyi_heap *any_heap; /* what was freed with ANY */
    struct moietyi_segments *segments;
    struct moietyi_engine *engine;
    const struct moietyi_pool_ops *ops; /* constant */
    struct moietyi_exports *exports;    /* NULL: the pool is not exportable */
    struct moietyi_callbacks *callbacks;
    struct moietyi_scopes *scopes;
    struct moietyi_privates *privates;
    struct moietyi_checked *checked; /* NULL: an ordinary pool */
    struct moietyi_told *told;       /* NULL: nobody is told of allocations */
    struct moietyi_exposed exposed;
    /* MOIETYI_SHORT_ bits that the log was told since the pool grew last. Edge: none;
     * relaxed: so that it is said once. */
    atomic_uint told_short;
    /* The driver has refused more, and the pool has not grown since. Edge: none;
     * relaxed: advice. */
    atomic_bool is_refused;
    /* The most cache hits that statistics have told. Edge: none; relaxed: a maximum
     * of numbers, by which nothing else becomes visible. */
    _Atomic uint64_t told_hits;
};

#define MOIETYI_SHORT_OF_LIMIT 1U
#define MOIETYI_SHORT_OF_DEVICE 2U

static inline bool moietyi_is_checked(const struct moietyi_pool_body *body)
{
    return body->options.mode == MOIETY_MODE_CHECKED ||
           body->options.mode == MOIETY_MODE_CHECKED_PASS_THROUGH;
}

/* Whether each block is a reservation of its own from the source. */
static inline bool moietyi_is_passing(const struct moietyi_pool_body *body)
{
    return body->options.mode == MOIETY_MODE_PASS_THROUGH ||
           body->options.mode == MOIETY_MODE_CHECKED_PASS_THROUGH;
}

/* What the pool never exceeds, now. Wait-free. */
static inline uint64_t moietyi_limit_of(const struct moietyi_pool_body *body)
{
    return moietyi_segments_limit(body->segments);
}

/* Every block that is in use, at rest. */
void moietyi_leaks_find(const struct moietyi_pool_body *body,
                        moiety_leaks *out);

#endif
