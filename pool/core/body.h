/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool beside its caches: what every part of the facade may know of it.
 * Features hang here by pointers to their own state, which the core never
 * looks into, and by one table of operations.
 */
#ifndef BINADE_POOL_CORE_BODY_H_
#define BINADE_POOL_CORE_BODY_H_

#include <stdatomic.h>
#include <stdbool.h>

#include "binade/pool.h"
#include "pool/cache/cache.h"
#include "pool/core/exposed.h"
#include "pool/driver/context.h"
#include "pool/segment/mapper.h"
#include "pool/segment/segment.h"

struct binadei_pool_ops;

struct binadei_pool_body {
    const struct binadei_driver *driver;
    binade_pool_options options; /* resolved */
    uint64_t first_limit_bytes;  /* when it was made */
    uint32_t page_capacity;      /* of each offset space */
    CUdevice device;
    bool has_primary; /* the context is retained */
    bool is_arena;    /* a host arena's, which alone destroys it */
    CUcontext context;
    struct binadei_context own_context; /* the same, and whether it is lost */
    struct binade_pool *pool;
    binade_source source;         /* the caller's, if it has one */
    struct binadei_mapper mapper; /* of a pool whose memory is mapped, */
    struct binadei_mapped_device mapped_device; /* and its context */
    const char *source_name;
    struct binadei_buddy *buddy;
    struct binadei_maps *any_maps; /* what was freed with ANY */
    struct binadei_segments *segments;
    struct binadei_engine *engine;
    const struct binadei_pool_ops *ops; /* constant */
    struct binadei_exports *exports;    /* NULL: the pool is not exportable */
    struct binadei_callbacks *callbacks;
    struct binadei_scopes *scopes;
    struct binadei_privates *privates;
    struct binadei_checked *checked; /* NULL: an ordinary pool */
    struct binadei_told *told;       /* NULL: nobody is told of allocations */
    struct binadei_exposed exposed;
    /* BINADEI_SHORT_ bits that the log was told since the pool grew last. Edge: none;
     * relaxed: so that it is said once. */
    atomic_uint told_short;
};

#define BINADEI_SHORT_OF_LIMIT 1U
#define BINADEI_SHORT_OF_DEVICE 2U

/* What the pool never exceeds, now. Wait-free. */
static inline uint64_t binadei_limit_of(const struct binadei_pool_body *body)
{
    return binadei_segments_limit(body->segments);
}

/* Every block that is in use, at rest. */
void binadei_leaks_find(const struct binadei_pool_body *body,
                        binade_leaks *out);

#endif
