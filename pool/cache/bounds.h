/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How much caches may hold at the moment. Each allocation that has to climb
 * beyond growing halves the bounds, down to a sixteenth of what was set; they
 * double again when the pool grows without that, or was calm for a while.
 * Counted in misses, not in time, so that a pool at rest stays as it is.
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

/* A thread's caches hold no more than this part of what is reserved: a small
 * pool would be all caches otherwise. */
#define BINADEI_THREAD_SHARE 4U

/* What the caches of one thread may hold. */
static inline uint64_t binadei_thread_bound(const struct binadei_engine *engine)
{
    uint64_t bound = binadei_bound(engine, engine->thread_cache_bytes);
    uint64_t share = binadei_segments_reserved_bytes(engine->segments) /
                     BINADEI_THREAD_SHARE;
    if (share < BINADEI_PAGE_BYTES)
        share = BINADEI_PAGE_BYTES;
    return bound < share ? bound : share;
}

/* Somebody climbs. */
void binadei_bounds_shrink(struct binadei_member *by);
/* The pool grew, and nobody had to climb for it. */
void binadei_bounds_widen(struct binadei_engine *engine);
/* A miss was served without a climb. */
void binadei_bounds_stay_calm(struct binadei_member *by);

#endif
