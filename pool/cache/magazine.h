/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Magazines: stacks of free blocks of one class. Only their owner touches them;
 * statistics read the counters. A magazine in use has room for a few blocks,
 * and for more if it both overflows and runs dry. When a thread's magazines
 * have all the room that they may, a resting one is emptied.
 */
#ifndef MOIETY_POOL_CACHE_MAGAZINE_H_
#define MOIETY_POOL_CACHE_MAGAZINE_H_

#include "pool/cache/state.h"

/* An entry of a magazine is a block's address. Its lowest nine bits hold the
 * block's shortfall, so that a hit compares lengths without reading another
 * line. */
#define MOIETYI_ENTRY_MASK ((moiety_devptr)MOIETYI_GRAIN_BYTES - 1)

static inline moiety_devptr moietyi_entry_of(uint64_t grains,
                                             moiety_devptr address)
{
    return address | moietyi_shortfall(grains - 1);
}

static inline moiety_devptr moietyi_entry_address(moiety_devptr entry)
{
    return entry & ~MOIETYI_ENTRY_MASK;
}

static inline uint64_t moietyi_entry_shortfall(moiety_devptr entry)
{
    return entry & MOIETYI_ENTRY_MASK;
}

/* The most blocks that one miss takes. */
#define MOIETYI_REFILL_BLOCKS 32U

static inline uint32_t
moietyi_magazine_count(const struct moietyi_magazine *magazine)
{
    /* CT, relaxed: only the owner writes. */
    return atomic_load_explicit(&magazine->count, memory_order_relaxed);
}

static inline void moietyi_magazine_set(struct moietyi_magazine *magazine,
                                        uint32_t count)
{
    /* CT, relaxed: only the owner writes. */
    atomic_store_explicit(&magazine->count, count, memory_order_relaxed);
}

/* The first class from `from` on whose magazine has capacity or blocks, or
 * MOIETYI_CLASSES. CT, relaxed: a hint to all but the owner. */
static inline uint32_t
moietyi_cache_next_in_use(const struct moietyi_cache *cache, uint32_t from)
{
    for (uint32_t word = from / 64; word < MOIETYI_CLASS_WORDS; word++) {
        uint64_t bits =
            atomic_load_explicit(&cache->in_use[word], memory_order_relaxed);
        if (word == from / 64)
            bits &= ~UINT64_C(0) << from % 64;
        if (bits)
            return word * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return MOIETYI_CLASSES;
}

/* The length of a block less the longest length of its class: below 0 for a
 * short block, so it wraps. */
static inline uint64_t moietyi_uneven_bytes(uint32_t class_index,
                                            uint64_t grains)
{
    return (grains - moietyi_class_grains(class_index)) * MOIETYI_GRAIN_BYTES;
}

static inline void
moietyi_magazine_count_alloc(struct moietyi_magazine *magazine,
                             size_t size_bytes)
{
    moietyi_count_add(&magazine->alloc_count, 1);
    moietyi_count_add(&magazine->requested_bytes, size_bytes);
}

/* Makes room for one more block; blocks leave if there is none. False: the
 * block goes another way, because its class is not kept or there is no
 * memory. */
bool moietyi_magazine_make_room(struct moietyi_cache *cache,
                                uint32_t class_index);
/* How many blocks a miss takes. The first is the caller's, and the magazine has
 * room for the others. */
uint32_t moietyi_magazine_refill(struct moietyi_cache *cache,
                                 uint32_t class_index);

/* Allocations and frees that its magazines counted. */
uint64_t moietyi_cache_activity(const struct moietyi_cache *cache);

/* Empties all magazines: done blocks go to DONE's heap, the others to the heap
 * where they wait for their event. Of the caller's own cache, or of an
 * abandoned thread state's; `by` does it. */
void moietyi_cache_empty(struct moietyi_thread_state *by,
                         struct moietyi_cache *cache);

/* How much caches may hold. Cached blocks do not merge, so a pool grows more if
 * its caches are full. All threads' caches together hold at most what is
 * reserved, each an equal part; after a growth, a quarter of that. Each
 * allocation that escalates beyond growing halves it again, at most four times,
 * and the configured bound too. It doubles after a calm period, counted in
 * misses and not in time, so that an idle pool stays as it is. */

#define MOIETYI_HALVINGS_GROWN 2U
#define MOIETYI_HALVINGS_MAX (MOIETYI_HALVINGS_GROWN + 4U)
/* Misses without an escalation after which the bounds double. */
#define MOIETYI_CALM_MISSES 1024U
/* The least share. */
#define MOIETYI_SHARE_LEAST (UINT64_C(512) << 10)

static inline unsigned moietyi_halvings(const struct moietyi_engine *engine)
{
    /* relaxed: a bound, not a lock. */
    return atomic_load_explicit(&engine->halvings, memory_order_relaxed);
}

/* If memory is short, refills are small, because their blocks rest. */
static inline bool moietyi_is_short(const struct moietyi_engine *engine)
{
    return moietyi_halvings(engine) > MOIETYI_HALVINGS_GROWN;
}

/* What the halvings leave of a configured bound. */
static inline uint64_t moietyi_bound(const struct moietyi_engine *engine,
                                     uint64_t bytes)
{
    unsigned halvings = moietyi_halvings(engine);
    return halvings > MOIETYI_HALVINGS_GROWN
               ? bytes >> (halvings - MOIETYI_HALVINGS_GROWN)
               : bytes;
}

/* The bytes that the caches of one thread may hold. */
static inline uint64_t moietyi_thread_bound(const struct moietyi_engine *engine)
{
    uint64_t bytes = moietyi_bound(engine, engine->thread_cache_bytes);
    /* relaxed: a number. One at least: the caller. */
    uint64_t threads =
        atomic_load_explicit(&engine->thread_state_count, memory_order_relaxed);
    uint64_t share = (moietyi_segments_reserved_bytes(engine->segments) /
                      (threads + !threads)) >>
                     moietyi_halvings(engine);
    if (share < MOIETYI_SHARE_LEAST)
        share = MOIETYI_SHARE_LEAST;
    return bytes < share ? bytes : share;
}

/* Somebody escalates. */
void moietyi_bounds_shrink(struct moietyi_thread_state *by);
/* The pool grew, and no allocation had to escalate for it. */
void moietyi_bounds_note_growth(struct moietyi_engine *engine);
/* Called for a miss without an escalation while the bounds are halved. */
void moietyi_bounds_stay_calm(struct moietyi_thread_state *by);

#endif
