/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The hits: an allocation that the thread's cache serves, and a free that it
 * takes. No lock, no read-modify-write, no driver call; of shared memory they
 * read the pool's handle, and a free the metadata of its block.
 */
#ifndef BINADE_POOL_CACHE_HIT_H_
#define BINADE_POOL_CACHE_HIT_H_

#include "pool/cache/entry.h"
#include "pool/cache/magazine.h"
#include "pool/cache/state.h"
#include "pool/cache/thread.h"

#define BINADEI_LIKELY(condition) __builtin_expect(!!(condition), 1)

/* Begins a hit, which binadei_thread_leave() ends. Nothing of the thread's is
 * read before: a signal handler that interrupts it there makes calls of its own,
 * which move routes and caches; from here on it is refused. False: a call of
 * this thread is inside. */
static inline bool binadei_hit_begin(struct binadei_thread *thread)
{
    if (!BINADEI_LIKELY(!binadei_thread_is_inside(thread)))
        return false;
    binadei_thread_go_inside(thread);
    return true;
}

/* Inside: whether a route leads there, and still is right. */
static inline bool binadei_hit_is_right(const struct binadei_route *route,
                                        const struct binade_pool *pool,
                                        binade_stream stream)
{
    return BINADEI_LIKELY(route && route->pool == pool &&
                          route->stream == stream) &&
           BINADEI_LIKELY(route->attention == binadei_attention(pool));
}

/* Inside: the route found last, if it leads there and nobody asks for the
 * caches; or NULL. There is no call in it, or the compiler would save registers
 * for each hit. */
static inline struct binadei_route *
binadei_hit_last(const struct binadei_thread *thread,
                 const struct binade_pool *pool, binade_stream stream)
{
    struct binadei_route *route = thread->last;
    return binadei_hit_is_right(route, pool, stream) &&
                   BINADEI_LIKELY(!binadei_thread_claim(thread))
               ? route
               : NULL;
}

/* Inside: whether others ask for the caches, also where it takes a fence to
 * know. */
static inline bool binadei_hit_is_claimed(struct binadei_thread *thread)
{
    return binadei_thread_claim(thread) && binadei_thread_is_claimed(thread);
}

/* Inside: the route for any stream, likewise. `pool` may be NULL. */
static inline struct binadei_route *
binadei_hit_find(struct binadei_thread *thread, const struct binade_pool *pool,
                 binade_stream stream)
{
    struct binadei_route *route = binadei_thread_find(thread, pool, stream);
    return binadei_hit_is_right(route, pool, stream) &&
                   !binadei_hit_is_claimed(thread)
               ? route
               : NULL;
}

/* Size 0 wraps around and is too large for any hit. */
static inline uint64_t binadei_hit_less_one(size_t size_bytes)
{
    return (size_bytes - 1) / BINADEI_GRAIN_BYTES;
}

/* Inside: takes the small block on top, or returns 0. */
static inline binade_devptr binadei_hit_pop(struct binadei_magazine *magazine,
                                            size_t size_bytes)
{
    uint32_t count = binadei_magazine_count(magazine);
    binade_devptr address = 0;
    if (BINADEI_LIKELY(count != 0)) {
        address = magazine->entries[count - 1];
        binadei_magazine_set(magazine, count - 1);
        binadei_magazine_count_alloc(magazine, size_bytes);
    }
    return address;
}

/* Entries of a bucket that a hit looks at, newest first. */
#define BINADEI_HIT_DEPTH 4U

/* Inside: takes the run on top, which is `longer` grains longer than it must be. */
static inline binade_devptr
binadei_hit_take_run(struct binadei_cache *cache,
                     struct binadei_magazine *magazine, size_t size_bytes,
                     uint64_t longer)
{
    uint32_t last = binadei_magazine_count(magazine) - 1;
    uint64_t grains = binadei_hit_less_one(size_bytes) + 1 + longer;
    binadei_magazine_set(magazine, last);
    binadei_magazine_count_alloc(magazine, size_bytes);
    binadei_count_add(&cache->run_alloc_bytes, grains * BINADEI_GRAIN_BYTES);
    return binadei_entry_address(magazine->entries[last]);
}

/* Inside: takes the run on top, if it is long enough and by at most `slack`
 * grains longer than it must be, or returns 0. There is no loop in it, or the
 * compiler would save registers. */
static inline binade_devptr binadei_hit_pop_run(struct binadei_cache *cache,
                                                size_t size_bytes,
                                                uint64_t slack)
{
    uint64_t less_one = binadei_hit_less_one(size_bytes);
    struct binadei_magazine *magazine =
        &cache->magazines[binadei_bucket_of(less_one)];
    uint32_t count = binadei_magazine_count(magazine);
    if (!BINADEI_LIKELY(count != 0))
        return 0;
    /* Wraps around where the run is too short. */
    uint64_t longer = binadei_shortfall(less_one) -
                      binadei_entry_shortfall(magazine->entries[count - 1]);
    return BINADEI_LIKELY(longer <= slack)
               ? binadei_hit_take_run(cache, magazine, size_bytes, longer)
               : 0;
}

/* Inside: the same with the newest few, of which the one that serves comes on
 * top first. */
static inline binade_devptr
binadei_hit_pop_some_run(struct binadei_cache *cache, size_t size_bytes,
                         uint64_t slack)
{
    uint64_t less_one = binadei_hit_less_one(size_bytes);
    struct binadei_magazine *magazine =
        &cache->magazines[binadei_bucket_of(less_one)];
    uint64_t wanted = binadei_shortfall(less_one);
    uint32_t count = binadei_magazine_count(magazine);
    uint32_t end = count < BINADEI_HIT_DEPTH ? 0 : count - BINADEI_HIT_DEPTH;
    for (uint32_t i = count; i-- > end;) {
        binade_devptr entry = magazine->entries[i];
        uint64_t longer = wanted - binadei_entry_shortfall(entry);
        if (longer > slack)
            continue;
        magazine->entries[i] = magazine->entries[count - 1];
        magazine->entries[count - 1] = entry;
        return binadei_hit_take_run(cache, magazine, size_bytes, longer);
    }
    return 0;
}

/* Inside: pops a small block of at least `size_bytes`, or returns 0. */
static inline binade_devptr
binadei_hit_alloc_small(const struct binadei_route *route, size_t size_bytes)
{
    uint64_t less_one = binadei_hit_less_one(size_bytes);
    if (!BINADEI_LIKELY(less_one < BINADEI_SMALL_GRAINS))
        return 0;
    return binadei_hit_pop(
        &route->pop->magazines[binadei_small_class_of(less_one)], size_bytes);
}

/* Whether a hit may serve it with a run. */
static inline bool binadei_hit_is_run(size_t size_bytes)
{
    return binadei_hit_less_one(size_bytes) - BINADEI_SMALL_GRAINS <
           BINADEI_HIT_GRAINS - BINADEI_SMALL_GRAINS;
}

/* By how many grains a cached run may be longer than what is asked for. */
static inline uint64_t binadei_hit_slack(const struct binade_pool *pool,
                                         size_t size_bytes)
{
    return (binadei_hit_less_one(size_bytes) + 1) >> pool->slack_shift;
}

/* Inside: a block of any size that hits serve. `is_exact`: of exactly the
 * grains that it takes. */
static inline binade_devptr binadei_hit_alloc(const struct binadei_route *route,
                                              size_t size_bytes, bool is_exact)
{
    if (!binadei_hit_is_run(size_bytes))
        return binadei_hit_alloc_small(route, size_bytes);
    return binadei_hit_pop_some_run(
        route->pop, size_bytes,
        is_exact ? 0 : binadei_hit_slack(route->pool, size_bytes));
}

/* The metadata byte of a block's start, 0 where none starts. */
static inline uint8_t binadei_hit_byte(const struct binade_pool *pool,
                                       binade_devptr address,
                                       binadei_grain *out_start)
{
    if (!BINADEI_LIKELY(address % BINADEI_GRAIN_BYTES == 0 &&
                        binadei_grain_of(pool->lookup, address, out_start)))
        return 0;
    /* relaxed: the holder of a block owns its byte. */
    return atomic_load_explicit(&pool->classes[out_start->index],
                                memory_order_relaxed);
}

/* Inside: puts an entry on top if there is room. */
static inline bool binadei_hit_push(struct binadei_magazine *magazine,
                                    binade_devptr entry)
{
    uint32_t count = binadei_magazine_count(magazine);
    if (!BINADEI_LIKELY(count < magazine->capacity) ||
        /* Freed twice in a row is seen at no cost. */
        !BINADEI_LIKELY(!count || magazine->entries[count - 1] != entry))
        return false;
    magazine->entries[count] = entry;
    binadei_magazine_set(magazine, count + 1);
    binadei_count_add(&magazine->free_count, 1);
    return true;
}

/* Inside: pushes a block of a small class, or returns false. */
static inline bool binadei_hit_free(const struct binadei_route *route,
                                    uint32_t class_index, binade_devptr address)
{
    return binadei_hit_push(&route->push->magazines[class_index], address);
}

/* The grains of a run. */
static inline uint64_t binadei_hit_run_grains(const struct binade_pool *pool,
                                              binadei_grain start)
{
    /* relaxed: as the byte. */
    return atomic_load_explicit(
        &pool->run_grains[start.index / BINADEI_CHUNK_GRAINS],
        memory_order_relaxed);
}

/* Whether a caller may say that a block of so many grains has this size: it is
 * of the block's class, and not more than it has. */
static inline bool binadei_hit_is_size(uint64_t grains, size_t size_bytes)
{
    uint64_t less_one = binadei_hit_less_one(size_bytes);
    if (less_one >= grains)
        return false;
    if (less_one < BINADEI_SMALL_GRAINS)
        return less_one + 1 == grains;
    return (less_one ^ (grains - 1)) >> binadei_bucket_shift(less_one) == 0;
}

/* Inside: pushes a run of so many grains, or returns false. */
static inline bool binadei_hit_free_run(const struct binadei_route *route,
                                        uint64_t grains, binade_devptr address)
{
    struct binadei_cache *cache = route->push;
    if (grains > BINADEI_HIT_GRAINS)
        return false;
    struct binadei_magazine *magazine =
        &cache->magazines[binadei_bucket_of(grains - 1)];
    binade_devptr entry = address | binadei_shortfall(grains - 1);
    uint32_t count = binadei_magazine_count(magazine);
    if (!BINADEI_LIKELY(count < magazine->capacity) ||
        !BINADEI_LIKELY(!count || magazine->entries[count - 1] != entry))
        return false;
    /* Often it is what was popped last. Then the next pop need not wait for the
     * length that was looked up here. */
    if (magazine->entries[count] != entry)
        magazine->entries[count] = entry;
    binadei_magazine_set(magazine, count + 1);
    binadei_count_add(&magazine->free_count, 1);
    binadei_count_add(&cache->run_free_bytes, grains * BINADEI_GRAIN_BYTES);
    return true;
}

/* Inside: pushes a block with this metadata byte, or returns false. */
static inline bool binadei_hit_free_block(const struct binadei_route *route,
                                          const struct binade_pool *pool,
                                          uint8_t byte, binadei_grain start,
                                          binade_devptr address)
{
    uint32_t class_index = byte - 1U;
    if (class_index < BINADEI_SMALL_CLASSES)
        return binadei_hit_free(route, class_index, address);
    return byte == BINADEI_BYTE_RUN &&
           binadei_hit_free_run(route, binadei_hit_run_grains(pool, start),
                                address);
}

#endif
