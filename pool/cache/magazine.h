/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Magazines: stacks of free blocks of one class. Their owner alone touches
 * them, but for the counters, which stats read. A magazine that is used has room
 * for a few blocks, and for more where it both overflows and runs dry; where a
 * thread's have as much as they may, one that rests is emptied.
 */
#ifndef MOIETY_POOL_CACHE_MAGAZINE_H_
#define MOIETY_POOL_CACHE_MAGAZINE_H_

#include "pool/cache/state.h"

/* Entries of magazines: a block's address, of which the lowest nine bits are free.
 * They are the block's shortfall, so that a hit compares lengths without a look at
 * another line. */
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

/* What one miss takes at most. */
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
 * MOIETYI_CLASSES. CT, relaxed: others than the owner only get a hint. */
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

/* The bytes of a block of the class that the count of its blocks does not tell: less
 * than none of a short one's. */
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

/* Makes room for one more block: blocks leave if there is none. False: the block
 * must go another way, because its class is not kept, or for want of memory. */
bool moietyi_magazine_make_room(struct moietyi_cache *cache,
                                uint32_t class_index);
/* How many blocks a miss takes, of which the first goes to the caller: the magazine
 * has room for the others. */
uint32_t moietyi_magazine_refill(struct moietyi_cache *cache,
                                 uint32_t class_index);

/* Allocations and frees that its magazines saw. */
uint64_t moietyi_cache_activity(const struct moietyi_cache *cache);

/* All blocks of all magazines leave: to what is done those that are, the others to
 * where they wait for their event. Of the caller's own cache, or of an abandoned
 * thread state's: `by` does it. */
void moietyi_cache_empty(struct moietyi_thread_state *by,
                         struct moietyi_cache *cache);

/* How much caches may hold at the moment. What rests in them does not merge, so a
 * pool that grows with full ones is larger for it. All threads' caches hold what is
 * reserved at the most, each as much as the others; once the pool has grown, a
 * quarter of that. Each allocation that has to escalate beyond growing halves it
 * again, and what was set as well, four times at the most. It doubles when the pool
 * was calm for a while, which is counted in misses, not in time, so that a pool at
 * rest stays as it is. */

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

/* Refills are small where memory is short: what they take rests. */
static inline bool moietyi_is_short(const struct moietyi_engine *engine)
{
    return moietyi_halvings(engine) > MOIETYI_HALVINGS_GROWN;
}

/* What is left of a bound that was set. */
static inline uint64_t moietyi_bound(const struct moietyi_engine *engine,
                                     uint64_t bytes)
{
    unsigned halvings = moietyi_halvings(engine);
    return halvings > MOIETYI_HALVINGS_GROWN
               ? bytes >> (halvings - MOIETYI_HALVINGS_GROWN)
               : bytes;
}

/* What the caches of one thread may hold. */
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
/* The pool grew, and nobody had to escalate for it. */
void moietyi_bounds_note_growth(struct moietyi_engine *engine);
/* A miss was served without an escalation, while the bounds are shrunk. */
void moietyi_bounds_stay_calm(struct moietyi_thread_state *by);

#endif
