/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Cache hits: allocations and frees that need only the thread's cache. They
 * take no lock, use no read-modify-write and make no driver call. The only
 * shared memory that they read is the pool's handle and, for a free, the
 * metadata of the block.
 */
#ifndef MOIETY_POOL_CACHE_HIT_H_
#define MOIETY_POOL_CACHE_HIT_H_

#include "pool/cache/flush.h"
#include "pool/cache/magazine.h"
#include "pool/cache/state.h"
#include "pool/cache/thread.h"

#define MOIETYI_LIKELY(condition) __builtin_expect(!!(condition), 1)

/* Begins a hit, which moietyi_thread_leave() ends. Nothing of the thread's is
 * read before: a signal handler that interrupts it until then may make calls of
 * its own, which move routes and caches; from here on it is refused. False:
 * this thread is inside a call. */
static inline bool moietyi_hit_begin(struct moietyi_thread *thread)
{
    if (!MOIETYI_LIKELY(!moietyi_thread_is_inside(thread)))
        return false;
    moietyi_thread_go_inside(thread);
    return true;
}

/* Inside: whether a route leads to this pool and stream, and is still valid. */
static inline bool moietyi_hit_is_right(const struct moietyi_route *route,
                                        const struct moiety_pool *pool,
                                        moiety_stream stream)
{
    return MOIETYI_LIKELY(route && route->pool == pool &&
                          route->stream == stream) &&
           MOIETYI_LIKELY(route->attention == moietyi_attention(pool));
}

/* Inside: the last route, if it is the right one and no thread asks for the
 * caches; or NULL. It calls no function, because the compiler would save
 * registers for each hit. */
static inline struct moietyi_route *
moietyi_hit_last(const struct moietyi_thread *thread,
                 const struct moiety_pool *pool, moiety_stream stream)
{
    struct moietyi_route *route = thread->last;
    return moietyi_hit_is_right(route, pool, stream) &&
                   MOIETYI_LIKELY(!moietyi_thread_revocation(thread))
               ? route
               : NULL;
}

/* Inside: whether others ask for the caches, also if it takes a fence to
 * see. */
static inline bool moietyi_hit_is_revoked(struct moietyi_thread *thread)
{
    return moietyi_thread_revocation(thread) &&
           moietyi_thread_is_revoked(thread);
}

/* Inside: the route for any stream. `pool` may be NULL. */
static inline struct moietyi_route *
moietyi_hit_find(struct moietyi_thread *thread, const struct moiety_pool *pool,
                 moiety_stream stream)
{
    struct moietyi_route *route = moietyi_thread_find(thread, pool, stream);
    return moietyi_hit_is_right(route, pool, stream) &&
                   !moietyi_hit_is_revoked(thread)
               ? route
               : NULL;
}

/* Inside: the last route, or another. */
static inline struct moietyi_route *
moietyi_hit_route(struct moietyi_thread *thread, const struct moiety_pool *pool,
                  moiety_stream stream)
{
    struct moietyi_route *route = moietyi_hit_last(thread, pool, stream);
    return MOIETYI_LIKELY(route) ? route
                                 : moietyi_hit_find(thread, pool, stream);
}

/* Inside: takes the block on top, if it is short by at most `most` grains, or
 * returns 0. */
static inline moiety_devptr moietyi_hit_pop(struct moietyi_cache *cache,
                                            uint32_t class_index, uint64_t most,
                                            size_t size_bytes)
{
    struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint32_t count = moietyi_magazine_count(magazine);
    if (!MOIETYI_LIKELY(count != 0))
        return 0;
    moiety_devptr entry = magazine->entries[count - 1];
    uint64_t shortfall = moietyi_entry_shortfall(entry);
    if (!MOIETYI_LIKELY(shortfall == 0)) {
        uint64_t bytes = shortfall * MOIETYI_GRAIN_BYTES;
        if (shortfall > most)
            return 0;
        moietyi_count_add(&cache->uneven_alloc_bytes, -bytes);
        moietyi_count_add(&cache->uneven_cached_bytes, bytes);
        entry -= shortfall;
    }
    moietyi_magazine_set(magazine, count - 1);
    moietyi_magazine_count_alloc(magazine, size_bytes);
    return entry;
}

/* Size 0 wraps around and is too large for any hit. */
static inline uint64_t moietyi_hit_less_one(size_t size_bytes)
{
    return (size_bytes - 1) / MOIETYI_GRAIN_BYTES;
}

/* Inside: pops a block of at least `size_bytes`, or returns 0. */
static inline moiety_devptr moietyi_hit_alloc(const struct moietyi_route *route,
                                              size_t size_bytes)
{
    uint64_t less_one = moietyi_hit_less_one(size_bytes);
    if (!MOIETYI_LIKELY(less_one < MOIETYI_CLASS_GRAINS_MAX))
        return 0;
    return moietyi_hit_pop(route->pop, moietyi_class_of(less_one),
                           moietyi_shortfall(less_one), size_bytes);
}

/* Inside: the same, of a block that is as long as its class. */
static inline moiety_devptr
moietyi_hit_alloc_full(const struct moietyi_route *route, size_t size_bytes)
{
    uint64_t less_one = moietyi_hit_less_one(size_bytes);
    if (less_one >= MOIETYI_CLASS_GRAINS_MAX)
        return 0;
    return moietyi_hit_pop(route->pop, moietyi_class_of(less_one), 0,
                           size_bytes);
}

/* The metadata byte of a block's start, 0 where none starts. */
static inline uint8_t moietyi_hit_byte(const struct moiety_pool *pool,
                                       moiety_devptr address,
                                       moietyi_grain *out_start)
{
    if (!MOIETYI_LIKELY(address % MOIETYI_GRAIN_BYTES == 0 &&
                        moietyi_grain_of(pool->lookup, address, out_start)))
        return 0;
    /* relaxed: the holder of a block owns its byte. */
    return atomic_load_explicit(&pool->classes[out_start->index],
                                memory_order_relaxed);
}

/* Inside: puts an entry on top if there is room. */
static inline bool moietyi_hit_push(struct moietyi_magazine *magazine,
                                    moiety_devptr entry)
{
    uint32_t count = moietyi_magazine_count(magazine);
    if (!MOIETYI_LIKELY(count < magazine->capacity) ||
        /* Sees a double free in a row at no cost. */
        !MOIETYI_LIKELY(!count || magazine->entries[count - 1] != entry))
        return false;
    magazine->entries[count] = entry;
    moietyi_magazine_set(magazine, count + 1);
    moietyi_count_add(&magazine->free_count, 1);
    return true;
}

/* Inside: pushes a block that is as long as its small class, or returns false.
 * The pool does not note streams. */
static inline bool moietyi_hit_free(const struct moietyi_route *route,
                                    uint32_t class_index, moiety_devptr address)
{
    return moietyi_hit_push(&route->push->magazines[class_index], address);
}

/* Inside: pushes a block that no other table has, or returns false. */
static inline bool moietyi_hit_free_block(const struct moietyi_route *route,
                                          moiety_devptr address,
                                          const struct moietyi_block *block)
{
    struct moietyi_cache *cache = route->push;
    if (block->class_index >= MOIETYI_CLASSES ||
        !moietyi_hit_push(&cache->magazines[block->class_index],
                          moietyi_entry_of(block->grains, address)))
        return false;
    uint64_t bytes = moietyi_uneven_bytes(block->class_index, block->grains);
    if (bytes) {
        moietyi_count_add(&cache->uneven_free_bytes, bytes);
        moietyi_count_add(&cache->uneven_cached_bytes, bytes);
    }
    return true;
}

/* The same, if it may: the block belongs to the route's stream now. */
static inline bool moietyi_hit_free_noted(const struct moietyi_route *route,
                                          moiety_devptr address,
                                          const struct moietyi_block *block)
{
    if (!moietyi_hit_free_block(route, address, block))
        return false;
    if (route->note)
        moietyi_note_put(route->pool->engine->notes, block->start, block->byte,
                         route->note);
    return true;
}

#endif
