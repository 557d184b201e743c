/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How much caches may hold at the moment. Each allocation that has to climb
 * beyond growing halves the bounds, down to a sixteenth of what was set; they
 * double again when the pool grows without that, or was calm for a while.
 * Counted in misses, not in time, so that a pool at rest stays as it is.
 *
 * Beside that, a thread's caches hold a share of what is reserved at the most.
 * What rests in caches does not merge, so a pool that grows with full ones is
 * larger for it (docs/adr/0024-share-of-caches.md): the share is small once the
 * pool has grown, and doubles again while it does not.
 */
#ifndef BINADE_POOL_CACHE_BOUNDS_H_
#define BINADE_POOL_CACHE_BOUNDS_H_

#include "pool/cache/state.h"

#define BINADEI_HALVINGS_MAX 4U
/* Misses without a climb after which the bounds double. */
#define BINADEI_CALM_MISSES 1024U

/* What is left of a bound. */
static inline uint64_t binadei_bound(const struct binadei_engine *engine,
                                     uint64_t bytes)
{
    /* relaxed: a bound, not a lock. */
    return bytes >>
           atomic_load_explicit(&engine->halvings, memory_order_relaxed);
}

/* The share: a quarter of what is reserved, or a page if that is more; once the
 * pool has grown, halved three times. Two steps double it. */
#define BINADEI_SHARE_PART 4U
#define BINADEI_GROWN_STEPS 6U

/* `bytes`, or the share if that is less. */
static inline uint64_t binadei_share(const struct binadei_engine *engine,
                                     uint64_t bytes)
{
    uint64_t share =
        binadei_segments_reserved_bytes(engine->segments) / BINADEI_SHARE_PART;
    if (share < BINADEI_PAGE_BYTES)
        share = BINADEI_PAGE_BYTES;
    /* relaxed: a bound, not a lock. */
    unsigned steps =
        atomic_load_explicit(&engine->grown_steps, memory_order_relaxed);
    share >>= (steps + 1) / 2;
    return bytes < share ? bytes : share;
}

/* What the caches of one thread may hold. */
static inline uint64_t binadei_thread_bound(const struct binadei_engine *engine)
{
    return binadei_share(engine,
                         binadei_bound(engine, engine->thread_cache_bytes));
}

/* What threads may leave each other in one depot: a part of what all threads'
 * caches may hold; and the share, until the pool is calm. */
#define BINADEI_DEPOT_PART 8U

static inline uint64_t binadei_depot_bound(const struct binadei_engine *engine)
{
    uint64_t bytes =
        binadei_bound(engine, engine->cache_bytes) / BINADEI_DEPOT_PART;
    /* relaxed: a bound, not a lock. */
    return atomic_load_explicit(&engine->grown_steps, memory_order_relaxed)
               ? binadei_share(engine, bytes)
               : bytes;
}

/* Somebody climbs. */
void binadei_bounds_shrink(struct binadei_member *by);
/* The pool grew, or had its first segment, and nobody had to climb for it. */
void binadei_bounds_note_growth(struct binadei_engine *engine, bool is_first);
/* A miss was served without a climb. */
void binadei_bounds_stay_calm(struct binadei_member *by);

#endif
