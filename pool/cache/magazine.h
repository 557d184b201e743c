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

/* Whether blocks of this class are kept at all: a thread's share is a few times
 * their size. */
bool binadei_class_is_cached(const struct binadei_engine *engine,
                             uint32_t class_index);

/* Makes room for one more block in a full magazine: more capacity, or blocks
 * leave. False: the block must go another way, because its class is not kept,
 * or for want of memory. */
bool binadei_magazine_make_room(struct binadei_cache *cache,
                                uint32_t class_index);
/* The magazine had no block of this size to pop. */
void binadei_magazine_missed(struct binadei_magazine *magazine,
                             const struct binadei_size *size);
/* A miss: how many blocks to refill with; the magazine has room for them. */
uint32_t binadei_magazine_refill(struct binadei_cache *cache,
                                 uint32_t class_index);
/* Puts the blocks of a bundle into the magazine, and spares the bundle. False:
 * it is of no class, or there is no memory; nothing changed. */
bool binadei_magazine_load(struct binadei_member *member,
                           struct binadei_cache *cache,
                           struct binadei_bundle *bundle);

/* Allocations and frees that its magazines saw. */
uint64_t binadei_cache_activity(const struct binadei_cache *cache);

/* All blocks of all magazines leave: to the buddy those that are done, the
 * others to where they wait for their event. False: no memory; some stay. Of
 * the caller's own cache, or an orphan's: `by` does it. */
bool binadei_cache_empty(struct binadei_member *by,
                         struct binadei_cache *cache);

#endif
