/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Magazines: stacks of free blocks of one class. Their owner alone touches
 * them, but for the counters, which stats read. Capacities are what the
 * budget's bytes are spent on: they grow where blocks come and go, and are
 * taken from magazines that rest.
 */
#ifndef BINADE_POOL_CACHE_MAGAZINE_H_
#define BINADE_POOL_CACHE_MAGAZINE_H_

#include "pool/cache/state.h"

/* Entries of magazines and bundles: a block's address, of which the lowest nine
 * bits are free. In a small class they are the block's shortfall, so that a hit
 * compares lengths without a look at another line. Longer runs have their length
 * looked up. */
#define BINADEI_ENTRY_MASK ((binade_devptr)BINADEI_GRAIN_BYTES - 1)

static inline binade_devptr
binadei_entry_of(uint32_t class_index, uint64_t grains, binade_devptr address)
{
    return binadei_class_is_small(class_index)
               ? address | binadei_shortfall(grains - 1)
               : address;
}

static inline binade_devptr binadei_entry_address(binade_devptr entry)
{
    return entry & ~BINADEI_ENTRY_MASK;
}

static inline uint64_t binadei_entry_shortfall(binade_devptr entry)
{
    return entry & BINADEI_ENTRY_MASK;
}

/* What one miss takes from the buddy at most. */
#define BINADEI_REFILL_BLOCKS 32U

static inline uint32_t
binadei_magazine_count(const struct binadei_magazine *magazine)
{
    /* CT, relaxed: only the owner writes. */
    return atomic_load_explicit(&magazine->count, memory_order_relaxed);
}

static inline void binadei_magazine_set(struct binadei_magazine *magazine,
                                        uint32_t count)
{
    /* CT, relaxed: only the owner writes. */
    atomic_store_explicit(&magazine->count, count, memory_order_relaxed);
}

/* The first class from `from` on whose magazine has capacity or blocks, or
 * BINADEI_CLASSES. CT, relaxed: others than the owner only get a hint. */
static inline uint32_t
binadei_cache_next_in_use(const struct binadei_cache *cache, uint32_t from)
{
    for (uint32_t word = from / 64; word < BINADEI_CLASSES / 64; word++) {
        uint64_t bits =
            atomic_load_explicit(&cache->in_use[word], memory_order_relaxed);
        if (word == from / 64)
            bits &= ~UINT64_C(0) << from % 64;
        if (bits)
            return word * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return BINADEI_CLASSES;
}

/* The bytes of a block that the count of its class does not tell: all of a
 * run's, less than none of a short one's. */
static inline uint64_t binadei_uneven_bytes(uint32_t class_index,
                                            uint64_t grains)
{
    uint64_t told = binadei_class_is_small(class_index)
                        ? binadei_class_grains(class_index)
                        : 0;
    return (grains - told) * BINADEI_GRAIN_BYTES;
}

static inline void
binadei_magazine_count_alloc(struct binadei_magazine *magazine,
                             size_t size_bytes)
{
    binadei_count_add(&magazine->alloc_count, 1);
    binadei_count_add(&magazine->requested_bytes, size_bytes);
}

/* Has room for `blocks` entries in all; false: no memory. */
bool binadei_magazine_reserve(struct binadei_magazine *magazine,
                              uint32_t blocks);

/* A run was popped. */
void binadei_last_runs_popped(struct binadei_cache *cache,
                              uint32_t class_index);

/* Makes room for one more block: the magazine has it, or gets more capacity, or
 * blocks leave. False: the block must go another way, because its class is not
 * kept, or for want of memory. */
bool binadei_magazine_make_room(struct binadei_cache *cache,
                                uint32_t class_index);
/* The magazine had no block of this size to pop. */
void binadei_magazine_missed(struct binadei_magazine *magazine,
                             const struct binadei_size *size);
/* How many blocks may be taken now, of which the first goes to the caller. */
uint32_t binadei_magazine_room(const struct binadei_magazine *magazine);
/* A miss: how many blocks to refill with. The magazine has room for them until
 * another is refilled, which may take it. */
uint32_t binadei_magazine_refill(struct binadei_cache *cache,
                                 uint32_t class_index);
/* Puts the blocks of a depot's bundle into the magazine, and recycles the bundle.
 * False: there is no memory; nothing changed. */
bool binadei_magazine_load(struct binadei_thread_state *thread_state,
                           struct binadei_cache *cache,
                           struct binadei_bundle *bundle);

/* Allocations and frees that its magazines saw. */
uint64_t binadei_cache_activity(const struct binadei_cache *cache);

/* All blocks of all magazines leave: to the buddy those that are done, the
 * others to where they wait for their event. False: no memory; some stay. Of
 * the caller's own cache, or an abandoned thread state's: `by` does it. */
bool binadei_cache_empty(struct binadei_thread_state *by,
                         struct binadei_cache *cache);

/* How much caches may hold at the moment. Each allocation that has to escalate
 * beyond growing halves the bounds, down to a sixteenth of what was set; they
 * double again when the pool grows without that, or was calm for a while.
 * Counted in misses, not in time, so that a pool at rest stays as it is.
 *
 * Beside that, a thread's caches hold a share of what is reserved at the most.
 * What rests in caches does not merge, so a pool that grows with full ones is
 * larger for it (docs/adr/0024-share-of-caches.md): the share is small once the
 * pool has grown, and doubles again while it does not. */

#define BINADEI_HALVINGS_MAX 4U
/* Misses without an escalation after which the bounds double. */
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

/* Somebody escalates. */
void binadei_bounds_shrink(struct binadei_thread_state *by);
/* The pool grew, or had its first segment, and nobody had to escalate for it.
 *  */
void binadei_bounds_note_growth(struct binadei_engine *engine, bool is_first);
/* A miss was served without an escalation. */
void binadei_bounds_stay_calm(struct binadei_thread_state *by);

#endif
