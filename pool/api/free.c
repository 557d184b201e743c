/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Freeing: the hit, and what is checked when it is none. A hit reads the
 * block's metadata byte also where the caller says the size: the check runs
 * beside the push and costs next to nothing.
 */
#include "binade/pool.h"

#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/cache/hit.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/core/recorded.h"
#include "pool/tenant/directory.h"

static binade_status free_and_note(struct binadei_call *call,
                                   binade_devptr address, size_t size_bytes)
{
    uint64_t found_bytes = 0;
    uint64_t ticks = binadei_ticks_before(call);
    binade_status status =
        call->pool->body->ops->free(call, address, size_bytes, &found_bytes);
    const struct binadei_note note = {
        .kind = size_bytes ? BINADE_HISTORY_FREE_SIZED : BINADE_HISTORY_FREE,
        .status = status,
        .ticks = ticks,
        .address = address,
        .size_bytes = size_bytes ? size_bytes : found_bytes,
        .stream = call->stream,
    };
    binadei_note(call, &note);
    return status;
}

static __attribute__((noinline)) binade_status free_slow(binade_pool *pool,
                                                         binade_devptr address,
                                                         size_t size_bytes,
                                                         binade_stream stream)
{
    struct binadei_call call;
    binade_status status = binadei_begin(pool, stream, &call);
    if (status != BINADE_OK)
        return status;
    if (address)
        status = free_and_note(&call, address, size_bytes);
    binadei_call_end(&call);
    return status;
}

/* The byte of a block that is as long as the class of this size; one that no
 * block has for 0 and for sizes without hits. */
static inline uint32_t full_byte_of(size_t size_bytes)
{
    uint64_t less_one = binadei_hit_less_one(size_bytes);
    return less_one < BINADEI_SMALL_GRAINS_MAX ? binadei_class_of(less_one) + 1
                                               : UINT32_MAX;
}

/* The way back that is as good as a hit: takes the tag off a small block and
 * pushes it, if nothing else is noted of it and the magazine has room. False:
 * nothing has changed. Inside, as hit.h says it. */
static __attribute__((noinline)) bool
free_of_tenant(const struct binadei_thread *thread,
               const struct binadei_route *route, binade_pool *pool,
               binade_devptr address)
{
    struct binadei_engine *engine = pool->engine;
    struct binadei_tags *tags = binadei_tags(engine);
    if (!tags)
        return false;
    binadei_grain start = {0};
    uint8_t byte = binadei_hit_byte(pool, address, &start);
    uint8_t bare = byte & (uint8_t)~BINADEI_BYTE_SPECIAL;
    /* A tenant's block is not short. */
    if (byte == bare || !bare || bare > BINADEI_SMALL_CLASSES)
        return false;
    binadei_tag tag = binadei_tag_of(tags, start);
    if (!tag || tag & BINADEI_TAG_FURTHER)
        return false;
    binadei_tag_set(tags, start, 0);
    binadei_buddy_set_class(engine->streams.buddy, start, bare);
    if (!binadei_hit_free_noted(route, address, bare, start)) {
        binadei_tag_set(tags, start, tag);
        binadei_buddy_set_class(engine->streams.buddy, start, byte);
        return false;
    }
    binadei_account_release(&binadei_tenant_of_tag(tag)->account,
                            thread->number, binadei_class_bytes(bare - 1U));
    return true;
}

/* Inside: whether the thread's cache took the block, plain or a tenant's. */
static inline bool give_by(const struct binadei_thread *thread,
                           const struct binadei_route *route, binade_pool *pool,
                           binade_devptr address)
{
    binadei_grain start = {0};
    uint8_t byte = binadei_hit_byte(pool, address, &start);
    return binadei_hit_free_noted(route, address, byte, start) ||
           free_of_tenant(thread, route, pool, address);
}

/* Whether the thread's cache took the block. */
static inline bool give_cached(binade_pool *pool, binade_devptr address,
                               binade_stream stream)
{
    struct binadei_thread *thread = binadei_thread_self;
    if (!binadei_hit_begin(thread))
        return false;
    const struct binadei_route *route = binadei_hit_find(thread, pool, stream);
    bool is_given = route && give_by(thread, route, pool, address);
    binadei_thread_leave(thread);
    return is_given || (binadei_is_recorded(pool) &&
                        binadei_recorded_free(pool, address, 0, stream));
}

/* Not the last stream, or no hit, or a tenant's; see alloc_other(). */
static __attribute__((noinline)) binade_status
free_other(binade_pool *pool, binade_devptr address, binade_stream stream)
{
    return give_cached(pool, address, stream)
               ? BINADE_OK
               : free_slow(pool, address, 0, stream);
}

/* A block that the thread's caches have no room for, if nothing is noted of it
 * that would have to be looked up. */
static binade_status give_free(binade_pool *pool, binade_devptr address,
                               binade_stream stream)
{
    struct binadei_call call;
    binadei_grain start = {0};
    uint64_t found_bytes;
    binade_status status = BINADE_E_BUSY;
    if (!binadei_call_begin_plain(pool, stream, &call))
        return BINADE_E_BUSY;
    uint8_t byte = binadei_hit_byte(pool, address, &start);
    if (byte && !(byte & BINADEI_BYTE_SPECIAL))
        status = pool->body->ops->free(&call, address, 0, &found_bytes);
    binadei_call_end(&call);
    return status;
}

binade_status binade_free_cached(binade_pool *pool, binade_devptr address,
                                 binade_stream stream)
{
    if (!pool)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_free_cached: pool is NULL");
    return give_cached(pool, address, stream)
               ? BINADE_OK
               : give_free(pool, address, stream);
}

binade_status binade_free(binade_pool *pool, binade_devptr address,
                          binade_stream stream)
{
    struct binadei_thread *thread = binadei_thread_self;
    if (binadei_hit_begin(thread)) {
        const struct binadei_route *route =
            binadei_hit_last(thread, pool, stream);
        binadei_grain start = {0};
        /* Nothing here is called, or registers were saved: a short block goes
         * the other way. */
        uint32_t class_index =
            BINADEI_LIKELY(route) ? binadei_hit_byte(pool, address, &start) - 1U
                                  : BINADEI_SMALL_CLASSES;
        bool is_given = BINADEI_LIKELY(class_index < BINADEI_SMALL_CLASSES) &&
                        BINADEI_LIKELY(!route->note) &&
                        binadei_hit_free(route, class_index, address);
        binadei_thread_leave(thread);
        if (BINADEI_LIKELY(is_given))
            return BINADE_OK;
    }
    return free_other(pool, address, stream);
}

/* Inside: as give_by(), if the block is as long as the class of the size. Others
 * are looked at by the slow way. */
static inline bool give_sized_by(const struct binadei_thread *thread,
                                 const struct binadei_route *route,
                                 binade_pool *pool, binade_devptr address,
                                 uint32_t byte)
{
    binadei_grain start = {0};
    uint32_t found = binadei_hit_byte(pool, address, &start);
    return (found == byte &&
            binadei_hit_free_noted(route, address, (uint8_t)byte, start)) ||
           (found == (byte | BINADEI_BYTE_SPECIAL) &&
            free_of_tenant(thread, route, pool, address));
}

static inline bool give_sized_cached(binade_pool *pool, binade_devptr address,
                                     size_t size_bytes, binade_stream stream)
{
    struct binadei_thread *thread = binadei_thread_self;
    uint32_t byte = full_byte_of(size_bytes);
    if (byte == UINT32_MAX || !binadei_hit_begin(thread))
        return false;
    const struct binadei_route *route = binadei_hit_find(thread, pool, stream);
    bool is_given = route && give_sized_by(thread, route, pool, address, byte);
    binadei_thread_leave(thread);
    return is_given ||
           (binadei_is_recorded(pool) &&
            binadei_recorded_free(pool, address, size_bytes, stream));
}

static __attribute__((noinline)) binade_status
free_sized_other(binade_pool *pool, binade_devptr address, size_t size_bytes,
                 binade_stream stream)
{
    if (address && !size_bytes)
        return binadei_fail(BINADE_E_INVALID,
                            "size 0: no block has it; binade_free() needs no "
                            "size");
    return give_sized_cached(pool, address, size_bytes, stream)
               ? BINADE_OK
               : free_slow(pool, address, size_bytes, stream);
}

binade_status binade_free_sized(binade_pool *pool, binade_devptr address,
                                size_t size_bytes, binade_stream stream)
{
    struct binadei_thread *thread = binadei_thread_self;
    if (binadei_hit_begin(thread)) {
        const struct binadei_route *route =
            binadei_hit_last(thread, pool, stream);
        uint32_t byte = full_byte_of(size_bytes);
        binadei_grain start = {0};
        bool is_given =
            BINADEI_LIKELY(route) &&
            BINADEI_LIKELY(binadei_hit_byte(pool, address, &start) == byte) &&
            BINADEI_LIKELY(!route->note) &&
            binadei_hit_free(route, byte - 1, address);
        binadei_thread_leave(thread);
        if (BINADEI_LIKELY(is_given))
            return BINADE_OK;
    }
    return free_sized_other(pool, address, size_bytes, stream);
}

/* Inside: the caches of the thread's last route, if it may have hits and takes
 * blocks with this note; else those of another of its streams. NULL: none. */
static struct binadei_cache *free_own_cache(struct binadei_thread *thread,
                                            const binade_pool *pool,
                                            uint32_t note)
{
    const struct binadei_route *last = thread->last;
    if (last && last->note == note &&
        binadei_hit_is_right(last, pool, last->stream) &&
        !binadei_hit_is_revoked(thread))
        return last->push;
    const struct binadei_route *done =
        binadei_hit_find(thread, pool, BINADE_STREAM_DONE);
    struct binadei_cache *cache =
        done ? done->push->thread_state->caches : NULL;
    while (cache && cache->stream_state->note != note)
        cache = cache->next;
    return cache;
}

/* Whether the thread's cache of the block's own stream took it. */
static bool give_own(const binade_pool *pool, binade_devptr address)
{
    struct binadei_thread *thread = binadei_thread_self;
    binadei_grain start = {0};
    uint8_t byte = binadei_hit_byte(pool, address, &start);
    /* A short block takes the slow way. */
    if (!byte || byte > BINADEI_SMALL_CLASSES || !pool->engine->notes ||
        !binadei_hit_begin(thread))
        return false;
    uint32_t note = binadei_note_at(pool->engine->notes, start, byte);
    struct binadei_cache *cache =
        note > BINADEI_NOTE_ANY ? free_own_cache(thread, pool, note) : NULL;
    bool is_given =
        cache && binadei_hit_push(&cache->magazines[byte - 1], address);
    binadei_thread_leave(thread);
    return is_given;
}

/* See `turn` of the table. */
static binade_status turn_to_own(struct binadei_call *call,
                                 binade_devptr address)
{
    if (!(call->pool->body->options.flags & BINADE_POOL_NOTE_STREAMS))
        return binadei_fail(BINADE_E_UNSUPPORTED, "the pool was made without "
                                                  "BINADE_POOL_NOTE_STREAMS");
    if (binadei_is_lost(call->pool))
        return BINADE_OK;
    return call->pool->body->ops->turn(call, address);
}

static __attribute__((noinline)) binade_status
free_own_slow(binade_pool *pool, binade_devptr address)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    if (address)
        status = turn_to_own(&call, address);
    if (address && status == BINADE_OK)
        status = free_and_note(&call, address, 0);
    binadei_call_end(&call);
    return status;
}

binade_status binade_free_own(binade_pool *pool, binade_devptr address)
{
    return pool && !binadei_is_dead(pool) && give_own(pool, address)
               ? BINADE_OK
               : free_own_slow(pool, address);
}

static __attribute__((noinline)) binade_status
usable_size_slow(binade_pool *pool, binade_devptr address, size_t *out)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    status = call.pool->body->ops->usable_size(&call, address, out);
    binadei_call_leave(&call);
    return status;
}

/* A byte tells what the block has; where there is none, the call finds out why. */
binade_status binade_usable_size(binade_pool *pool, binade_devptr address,
                                 size_t *out)
{
    struct binadei_thread *thread = binadei_thread_self;
    binadei_grain start = {0};
    uint64_t grains = 0;
    if (!out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_usable_size: out is NULL");
    if (pool && !binadei_is_dead(pool) && !binadei_is_forked() &&
        binadei_hit_begin(thread)) {
        uint8_t byte = binadei_thread_serves(thread, pool)
                           ? 0
                           : binadei_hit_byte(pool, address, &start);
        if (byte)
            grains = binadei_block_grains(pool->engine, start, byte);
        binadei_thread_leave(thread);
    }
    if (!grains)
        return usable_size_slow(pool, address, out);
    *out = grains * BINADEI_GRAIN_BYTES;
    return BINADE_OK;
}
