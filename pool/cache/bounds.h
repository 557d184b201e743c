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

/* Somebody climbs. */
void binadei_bounds_shrink(struct binadei_member *by);
/* The pool grew, and nobody had to climb for it. */
void binadei_bounds_widen(struct binadei_engine *engine);
/* A miss was served without a climb. */
void binadei_bounds_stay_calm(struct binadei_engine *engine);

#endif
