/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Freeing: the hit, and what is checked when it is none. A hit reads the
 * block's metadata byte also where the caller says the size: the check runs
 * beside the push and costs next to nothing.
 */
#include "moiety/pool.h"

#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/cache/hit.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/core/recorded.h"
#include "pool/tenant/directory.h"

static moiety_status free_and_note(struct moietyi_call *call,
                                   moiety_devptr address, size_t size_bytes)
{
    uint64_t found_bytes = 0;
    uint64_t ticks = moietyi_ticks_before(call);
    moiety_status status =
        call->pool->body->ops->free(call, address, size_bytes, &found_bytes);
    const struct moietyi_note note = {
        .kind = size_bytes ? MOIETY_HISTORY_FREE_SIZED : MOIETY_HISTORY_FREE,
        .status = status,
        .ticks = ticks,
        .address = address,
        .size_bytes = size_bytes ? size_bytes : found_bytes,
        .stream = call->stream,
    };
    moietyi_note(call, &note);
    return status;
}

static __attribute__((noinline)) moiety_status free_slow(moiety_pool *pool,
                                                         moiety_devptr address,
                                                         size_t size_bytes,
                                                         moiety_stream stream)
{
    struct moietyi_call call;
    moiety_status status = moietyi_begin(pool, stream, &call);
    if (status != MOIETY_OK)
        return status;
    if (address)
        status = free_and_note(&call, address, size_bytes);
    moietyi_call_end(&call);
    return status;
}

/* The byte of a block that is as long as the class of this size; one that no
 * block has for 0 and for sizes without hits. */
static inline uint32_t full_byte_of(size_t size_bytes)
{
    uint64_t less_one = moietyi_hit_less_one(size_bytes);
    return less_one < MOIETYI_CLASS_GRAINS_MAX ? moietyi_class_of(less_one) + 1
                                               : UINT32_MAX;
}

/* The fast way for a tenant's block: takes the tag off a small block and pushes
 * it, if no other table has the block and the magazine has room. False: nothing
 * has changed. Inside (hit.h). */
static __attribute__((noinline)) bool
free_of_tenant(const struct moietyi_thread *thread,
               const struct moietyi_route *route, moiety_pool *pool,
               moiety_devptr address)
{
    struct moietyi_engine *engine = pool->engine;
    struct moietyi_tags *tags = moietyi_tags(engine);
    if (!tags)
        return false;
    moietyi_grain start = {0};
    uint8_t byte = moietyi_hit_byte(pool, address, &start);
    uint8_t bare = byte & (uint8_t)~MOIETYI_BYTE_SPECIAL;
    /* A tenant's block is not short. */
    if (byte == bare || !bare || bare > MOIETYI_CLASSES)
        return false;
    moietyi_tag tag = moietyi_tag_of(tags, start);
    if (!tag || tag & MOIETYI_TAG_FURTHER)
        return false;
    moietyi_tag_set(tags, start, 0);
    moietyi_space_set_class(engine->streams.space, start, bare);
    const struct moietyi_block block = moietyi_block_of(engine, start, bare);
    if (!moietyi_hit_free_noted(route, address, &block)) {
        moietyi_tag_set(tags, start, tag);
        moietyi_space_set_class(engine->streams.space, start, byte);
        return false;
    }
    moietyi_account_release(&moietyi_tenant_of_tag(tag)->account,
                            thread->number, moietyi_class_bytes(bare - 1U));
    return true;
}

/* Inside: whether the thread's cache took the block, plain or a tenant's. */
static inline bool give_by(const struct moietyi_thread *thread,
                           const struct moietyi_route *route, moiety_pool *pool,
                           moiety_devptr address,
                           const struct moietyi_block *block)
{
    return block->byte & MOIETYI_BYTE_SPECIAL
               ? free_of_tenant(thread, route, pool, address)
               : moietyi_hit_free_noted(route, address, block);
}

/* Inside: pushes a block into the thread's cache, or frees it into the heap if
 * the magazine has no room and no other table has the block. `size_bytes`: the
 * caller's claim, or 0. MOIETY_E_WOULD_BLOCK: it is not that simple. */
static inline moiety_status
give_inside(struct moietyi_thread *thread, const struct moietyi_route *route,
            moiety_pool *pool, moiety_devptr address, size_t size_bytes)
{
    struct moietyi_call call;
    moietyi_grain start = {0};
    uint8_t byte = moietyi_hit_byte(pool, address, &start);
    if (!byte)
        return MOIETY_E_WOULD_BLOCK;
    const struct moietyi_block block =
        moietyi_block_of(pool->engine, start, byte);
    if (size_bytes && !moietyi_block_may_have(&block, size_bytes))
        return MOIETY_E_WOULD_BLOCK;
    if (give_by(thread, route, pool, address, &block))
        return MOIETY_OK;
    if (byte & MOIETYI_BYTE_SPECIAL ||
        !moietyi_call_begin_plain(pool, thread, route, &call))
        return MOIETY_E_WOULD_BLOCK;
    moiety_status status = moietyi_put_plain(&call, &block, address);
    moietyi_call_end_plain(&call);
    return status;
}

/* The same for any stream, and in a pool with a history. */
static inline moiety_status give(moiety_pool *pool, moiety_devptr address,
                                 size_t size_bytes, moiety_stream stream)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    moiety_status status = MOIETY_E_WOULD_BLOCK;
    if (!moietyi_hit_begin(thread))
        return MOIETY_E_WOULD_BLOCK;
    const struct moietyi_route *route = moietyi_hit_route(thread, pool, stream);
    if (route)
        status = give_inside(thread, route, pool, address, size_bytes);
    moietyi_thread_leave(thread);
    if (status == MOIETY_E_WOULD_BLOCK && moietyi_is_recorded(pool) &&
        moietyi_recorded_free(pool, address, size_bytes, stream))
        return MOIETY_OK;
    return status;
}

/* No plain hit on the last stream; see alloc_miss(). */
static __attribute__((noinline)) moiety_status free_other(moiety_pool *pool,
                                                          moiety_devptr address,
                                                          size_t size_bytes,
                                                          moiety_stream stream)
{
    return give(pool, address, size_bytes, stream) == MOIETY_OK
               ? MOIETY_OK
               : free_slow(pool, address, size_bytes, stream);
}

moiety_status moiety_free_no_call(moiety_pool *pool, moiety_devptr address,
                                  moiety_stream stream)
{
    if (!pool)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_free_no_call: pool is NULL");
    return give(pool, address, 0, stream);
}

moiety_status moiety_free(moiety_pool *pool, moiety_devptr address,
                          moiety_stream stream)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    if (!moietyi_hit_begin(thread))
        return free_other(pool, address, 0, stream);
    const struct moietyi_route *route = moietyi_hit_last(thread, pool, stream);
    moietyi_grain start = {0};
    /* It calls nothing, because the compiler would save registers: a short
     * block goes the other way. */
    uint32_t class_index = MOIETYI_LIKELY(route) && MOIETYI_LIKELY(!route->note)
                               ? moietyi_hit_byte(pool, address, &start) - 1U
                               : MOIETYI_CLASSES;
    bool is_given = MOIETYI_LIKELY(class_index < MOIETYI_CLASSES) &&
                    moietyi_hit_free(route, class_index, address);
    moietyi_thread_leave(thread);
    return MOIETYI_LIKELY(is_given) ? MOIETY_OK
                                    : free_other(pool, address, 0, stream);
}

static __attribute__((noinline)) moiety_status
free_sized_other(moiety_pool *pool, moiety_devptr address, size_t size_bytes,
                 moiety_stream stream)
{
    if (address && !size_bytes)
        return moietyi_fail(MOIETY_E_INVALID,
                            "size 0: no block has it; moiety_free() needs no "
                            "size");
    return free_other(pool, address, size_bytes, stream);
}

moiety_status moiety_free_sized(moiety_pool *pool, moiety_devptr address,
                                size_t size_bytes, moiety_stream stream)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    if (moietyi_hit_begin(thread)) {
        const struct moietyi_route *route =
            moietyi_hit_last(thread, pool, stream);
        uint32_t byte = full_byte_of(size_bytes);
        moietyi_grain start = {0};
        bool is_given =
            MOIETYI_LIKELY(route) &&
            MOIETYI_LIKELY(moietyi_hit_byte(pool, address, &start) == byte) &&
            MOIETYI_LIKELY(!route->note) &&
            moietyi_hit_free(route, byte - 1, address);
        moietyi_thread_leave(thread);
        if (MOIETYI_LIKELY(is_given))
            return MOIETY_OK;
    }
    return free_sized_other(pool, address, size_bytes, stream);
}

/* Inside: the caches of the thread's last route, if it may have hits and takes
 * blocks with this note; otherwise those of another of its streams. NULL:
 * none. */
static struct moietyi_cache *free_own_cache(struct moietyi_thread *thread,
                                            const moiety_pool *pool,
                                            uint32_t note)
{
    const struct moietyi_route *last = thread->last;
    if (last && last->note == note &&
        moietyi_hit_is_right(last, pool, last->stream) &&
        !moietyi_hit_is_revoked(thread))
        return last->push;
    const struct moietyi_route *done =
        moietyi_hit_find(thread, pool, MOIETY_STREAM_DONE);
    struct moietyi_cache *cache =
        done ? done->push->thread_state->caches : NULL;
    while (cache && cache->stream_state->note != note)
        cache = cache->next;
    return cache;
}

/* Whether the thread's cache of the block's own stream took it. */
static bool give_own(const moiety_pool *pool, moiety_devptr address)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    moietyi_grain start = {0};
    uint8_t byte = moietyi_hit_byte(pool, address, &start);
    /* A short block takes the slow way. */
    if (!byte || byte > MOIETYI_CLASSES || !pool->engine->notes ||
        !moietyi_hit_begin(thread))
        return false;
    uint32_t note = moietyi_note_at(pool->engine->notes, start, byte);
    struct moietyi_cache *cache =
        note > MOIETYI_NOTE_ANY ? free_own_cache(thread, pool, note) : NULL;
    bool is_given =
        cache && moietyi_hit_push(&cache->magazines[byte - 1], address);
    moietyi_thread_leave(thread);
    return is_given;
}

/* See `turn` of the table. */
static moiety_status turn_to_own(struct moietyi_call *call,
                                 moiety_devptr address)
{
    if (!(call->pool->body->options.flags & MOIETY_POOL_NOTE_STREAMS))
        return moietyi_fail(MOIETY_E_UNSUPPORTED, "the pool was made without "
                                                  "MOIETY_POOL_NOTE_STREAMS");
    if (moietyi_is_lost(call->pool))
        return MOIETY_OK;
    return call->pool->body->ops->turn(call, address);
}

static __attribute__((noinline)) moiety_status
free_own_slow(moiety_pool *pool, moiety_devptr address)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    if (address)
        status = turn_to_own(&call, address);
    if (address && status == MOIETY_OK)
        status = free_and_note(&call, address, 0);
    moietyi_call_end(&call);
    return status;
}

moiety_status moiety_free_on_alloc_stream(moiety_pool *pool,
                                          moiety_devptr address)
{
    return pool && !moietyi_is_dead(pool) && give_own(pool, address)
               ? MOIETY_OK
               : free_own_slow(pool, address);
}

static __attribute__((noinline)) moiety_status
usable_size_slow(moiety_pool *pool, moiety_devptr address, size_t *out)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    status = call.pool->body->ops->usable_size(&call, address, out);
    moietyi_call_leave(&call);
    return status;
}

/* A byte says what the block needs; if there is none, the call finds out
 * why. */
moiety_status moiety_usable_size(moiety_pool *pool, moiety_devptr address,
                                 size_t *out)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    moietyi_grain start = {0};
    uint64_t grains = 0;
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_usable_size: out is NULL");
    if (pool && !moietyi_is_dead(pool) && !moietyi_is_forked() &&
        moietyi_hit_begin(thread)) {
        uint8_t byte = moietyi_thread_serves(thread, pool)
                           ? 0
                           : moietyi_hit_byte(pool, address, &start);
        if (byte)
            grains = moietyi_block_grains(pool->engine, start, byte);
        moietyi_thread_leave(thread);
    }
    if (!grains)
        return usable_size_slow(pool, address, out);
    *out = grains * MOIETYI_GRAIN_BYTES;
    return MOIETY_OK;
}
