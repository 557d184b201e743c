/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Magazines: stacks of free blocks of one class. Their owner alone touches
 * them, but for the counters, which stats read. Capacities are what the
 * budget's bytes are spent on: they grow where blocks come and go, and are
 * taken from magazines that rest.
 */
#ifndef MOIETY_POOL_CACHE_MAGAZINE_H_
#define MOIETY_POOL_CACHE_MAGAZINE_H_

#include "pool/cache/state.h"

/* Entries of magazines and bundles: a block's address, of which the lowest nine
 * bits are free. In a small class they are the block's shortfall, so that a hit
 * compares lengths without a look at another line. Longer runs have their length
 * looked up. */
#define MOIETYI_ENTRY_MASK ((moiety_devptr)MOIETYI_GRAIN_BYTES - 1)

static inline moiety_devptr
moietyi_entry_of(uint32_t class_index, uint64_t grains, moiety_devptr address)
{
    return moietyi_class_is_small(class_index)
               ? address | moietyi_shortfall(grains - 1)
               : address;
}

static inline moiety_devptr moietyi_entry_address(moiety_devptr entry)
{
    return entry & ~MOIETYI_ENTRY_MASK;
}

static inline uint64_t moietyi_entry_shortfall(moiety_devptr entry)
{
    return entry & MOIETYI_ENTRY_MASK;
}

/* What one miss takes from the buddy at most. */
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
    for (uint32_t word = from / 64; word < MOIETYI_CLASSES / 64; word++) {
        uint64_t bits =
            atomic_load_explicit(&cache->in_use[word], memory_order_relaxed);
        if (word == from / 64)
            bits &= ~UINT64_C(0) << from % 64;
        if (bits)
            return word * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return MOIETYI_CLASSES;
}

/* The bytes of a block that the count of its class does not tell: all of a
 * run's, less than none of a short one's. */
static inline uint64_t moietyi_uneven_bytes(uint32_t class_index,
                                            uint64_t grains)
{
    uint64_t told = moietyi_class_is_small(class_index)
                        ? moietyi_class_grains(class_index)
                        : 0;
    return (grains - told) * MOIETYI_GRAIN_BYTES;
}

static inline void
moietyi_magazine_count_alloc(struct moietyi_magazine *magazine,
                             size_t size_bytes)
{
    moietyi_count_add(&magazine->alloc_count, 1);
    moietyi_count_add(&magazine->requested_bytes, size_bytes);
}

/* Has room for `blocks` entries in all; false: no memory. */
bool moietyi_magazine_reserve(struct moietyi_magazine *magazine,
                              uint32_t blocks);

/* A run was popped. */
void moietyi_last_runs_popped(struct moietyi_cache *cache,
                              uint32_t class_index);

/* Makes room for one more block: the magazine has it, or gets more capacity, or
 * blocks leave. False: the block must go another way, because its class is not
 * kept, or for want of memory. */
bool moietyi_magazine_make_room(struct moietyi_cache *cache,
                                uint32_t class_index);
/* The magazine had no block of this size to pop. */
void moietyi_magazine_missed(struct moietyi_magazine *magazine,
                             const struct moietyi_size *size);
/* How many blocks may be taken now, of which the first goes to the caller. */
uint32_t moietyi_magazine_room(const struct moietyi_magazine *magazine);
/* A miss: how many blocks to refill with. The magazine has room for them until
 * another is refilled, which may take it. */
uint32_t moietyi_magazine_refill(struct moietyi_cache *cache,
                                 uint32_t class_index);
/* Puts the blocks of a depot's bundle into the magazine, and recycles the bundle.
 * False: there is no memory; nothing changed. */
bool moietyi_magazine_load(struct moietyi_thread_state *thread_state,
                           struct moietyi_cache *cache,
                           struct moietyi_bundle *bundle);

/* Allocations and frees that its magazines saw. */
uint64_t moietyi_cache_activity(const struct moietyi_cache *cache);

/* All blocks of all magazines leave: to the buddy those that are done, the
 * others to where they wait for their event. False: no memory; some stay. Of
 * the caller's own cache, or an abandoned thread state's: `by` does it. */
bool moietyi_cache_empty(struct moietyi_thread_state *by,
                         struct moietyi_cache *cache);

/* How much caches may hold at the moment. Each allocation that has to escalate
 * beyond growing halves the bounds, down to a sixteenth of what was set; they
 * double again when the pool grows without that, or was calm for a while.
 * Counted in misses, not in time, so that a pool at rest stays as it is.
 *
 * Beside that, a thread's caches hold a share of what is reserved at the most.
 * What rests in caches does not merge, so a pool that grows with full ones is
 * larger for it (docs/adr/0024-share-of-caches.md): the share is small once the
 * pool has grown, and doubles again while it does not. */

#define MOIETYI_HALVINGS_MAX 4U
/* Misses without an escalation after which the bounds double. */
#define MOIETYI_CALM_MISSES 1024U

/* What is left of a bound. */
static inline uint64_t moietyi_bound(const struct moietyi_engine *engine,
                                     uint64_t bytes)
{
    /* relaxed: a bound, not a lock. */
    return bytes >>
           atomic_load_explicit(&engine->halvings, memory_order_relaxed);
}

/* The share: a quarter of what is reserved, or a page if that is more; once the
 * pool has grown, halved three times. Two steps double it. */
#define MOIETYI_SHARE_PART 4U
#define MOIETYI_GROWN_STEPS 6U

/* `bytes`, or the share if that is less. */
static inline uint64_t moietyi_share(const struct moietyi_engine *engine,
                                     uint64_t bytes)
{
    uint64_t share =
        moietyi_segments_reserved_bytes(engine->segments) / MOIETYI_SHARE_PART;
    if (share < MOIETYI_PAGE_BYTES)
        share = MOIETYI_PAGE_BYTES;
    /* relaxed: a bound, not a lock. */
    unsigned steps =
        atomic_load_explicit(&engine->grown_steps, memory_order_relaxed);
    share >>= (steps + 1) / 2;
    return bytes < share ? bytes : share;
}

/* What the caches of one thread may hold. */
static inline uint64_t moietyi_thread_bound(const struct moietyi_engine *engine)
{
    return moietyi_share(engine,
                         moietyi_bound(engine, engine->thread_cache_bytes));
}

/* What threads may leave each other in one depot: a part of what all threads'
 * caches may hold; and the share, until the pool is calm. */
#define MOIETYI_DEPOT_PART 8U

static inline uint64_t moietyi_depot_bound(const struct moietyi_engine *engine)
{
    uint64_t bytes =
        moietyi_bound(engine, engine->cache_bytes) / MOIETYI_DEPOT_PART;
    /* relaxed: a bound, not a lock. */
    return atomic_load_explicit(&engine->grown_steps, memory_order_relaxed)
               ? moietyi_share(engine, bytes)
               : bytes;
}

/* Somebody escalates. */
void moietyi_bounds_shrink(struct moietyi_thread_state *by);
/* The pool grew, or had its first segment, and nobody had to escalate for it.
 *  */
void moietyi_bounds_note_growth(struct moietyi_engine *engine, bool is_first);
/* A miss was served without an escalation. */
void moietyi_bounds_stay_calm(struct moietyi_thread_state *by);

#endif
