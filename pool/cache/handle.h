/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a pool's handle points to: the one line of shared memory that a hit
 * reads. It outlives the pool, so that a late call finds out that it is late;
 * all else is the engine's and ends with it.
 */
#ifndef MOIETY_POOL_CACHE_HANDLE_H_
#define MOIETY_POOL_CACHE_HANDLE_H_

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/stream.h"
#include "pool/base/later.h"
#include "pool/segment/lookup.h"

struct moietyi_engine;
struct moietyi_pool_body;

/* What `attention` holds, from the lowest bit up: eight places for flags, and a
 * count of retired streams. While a flag is set there are no hits. */
#define MOIETYI_ATTENTION_GUARD UINT64_C(1) /* a capture guard is held */
#define MOIETYI_ATTENTION_DEAD UINT64_C(2)  /* the pool was destroyed */
/* The pool is checked, or passes all through; from its creation on. */
#define MOIETYI_ATTENTION_WATCHED UINT64_C(4)
#define MOIETYI_ATTENTION_LOST UINT64_C(8) /* the context is gone */
/* The pool keeps a history, so no hit is plain; set as long as it lives. */
#define MOIETYI_ATTENTION_RECORDED UINT64_C(16)
/* Somebody stops the pool, or has: see pool/observe/heap/stop_world.h. */
#define MOIETYI_ATTENTION_STOPPED UINT64_C(32)
/* Somebody is told of each allocation; from the pool's creation on. */
#define MOIETYI_ATTENTION_TOLD UINT64_C(64)
#define MOIETYI_ATTENTION_STEP (UINT64_C(1) << 8)
#define MOIETYI_ATTENTION_FLAGS (MOIETYI_ATTENTION_STEP - 1)

struct moiety_pool {
    /* Edges AT and IN: retire of a stream (release) -> the making of a route
     * (acquire); the pool's end and a call's begin, by order of seq_cst.
     * A hit reads it relaxed: it is one only while this has the value at which
     * its route was made. A change makes no promise to calls that are under
     * way; those that come after it in the program's own order see it. */
    alignas(64) _Atomic uint64_t attention;
    /* Constant while the pool exists. */
    const struct moietyi_lookup *lookup;
    /* Edge: none; relaxed: the space's metadata bytes, written by a block's
     * holder. */
    const _Atomic uint8_t *classes;
    struct moietyi_engine *engine;
    struct moietyi_pool_body *body; /* the facade's */
    struct moiety_pool *next_gone;  /* of all that were destroyed */
    bool is_arena;   /* constant: a host arena's, which alone destroys it */
    bool is_default; /* constant: the process's, which nobody destroys */
    struct moietyi_later later; /* who ends it, or its arena */
};

static inline uint64_t moietyi_attention(const struct moiety_pool *pool)
{
    /* AT, relaxed: coherence is enough for a hit. */
    return atomic_load_explicit(&pool->attention, memory_order_relaxed);
}

static inline bool moietyi_is_dead(const struct moiety_pool *pool)
{
    return (moietyi_attention(pool) & MOIETYI_ATTENTION_DEAD) != 0;
}

/* Whether the pool's context is gone, and all its memory with it. */
static inline bool moietyi_is_lost(const struct moiety_pool *pool)
{
    /* relaxed: a caller that comes later in the program's own order sees it;
     * any other asks the context before it calls the driver. */
    return (moietyi_attention(pool) & MOIETYI_ATTENTION_LOST) != 0;
}

#endif
