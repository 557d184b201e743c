/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Freeing: the hit, and what is checked when it is none. A hit reads the
 * block's metadata byte also where the caller says the size: the check runs
 * beside the push and costs next to nothing.
 */
#include "binade/pool.h"

#include "pool/base/failure.h"
#include "pool/body.h"
#include "pool/cache/hit.h"
#include "pool/checked.h"
#include "pool/privates.h"
#include "pool/recorded.h"
#include "pool/scopes.h"
#include "pool/tenant.h"

/* A size that the caller claims; 0: none. */
static binade_status check_size(const struct binadei_block *block,
                                size_t size_bytes)
{
    uint64_t held_bytes = block->grains * BINADEI_GRAIN_BYTES;
    if (!size_bytes)
        return BINADE_OK;
    if (binadei_block_may_have(block, size_bytes))
        return BINADE_OK;
    return binadei_fail(BINADE_E_INVALID, "size %zu: the block has %llu bytes",
                        size_bytes, (unsigned long long)held_bytes);
}

/* A block that was exported stays where it is until its exports are released:
 * peers may use it. */
static binade_status put_shared(struct binadei_call *call,
                                const struct binadei_block *block,
                                binade_devptr address)
{
    struct binadei_exports *exports = call->pool->body->exports;
    enum binadei_export_free found =
        exports && block->byte & BINADEI_BYTE_SPECIAL &&
                !binadei_is_lost(call->pool)
            ? binadei_exports_free(exports, address)
            : BINADEI_EXPORT_NONE;
    if (found == BINADEI_EXPORT_NONE)
        return binadei_put(call, block, address);
    if (found == BINADEI_EXPORT_KEPT)
        return BINADE_OK;
    return binadei_fail(BINADE_E_INVALID,
                        "the block at 0x%llx was freed before", address);
}

/* What a graph may use is kept for it, by its scope or by its scope's arena; and
 * what is an arena's, by that. */
static binade_status put(struct binadei_call *call,
                         const struct binadei_block *block,
                         binade_devptr address)
{
    bool is_special = (block->byte & BINADEI_BYTE_SPECIAL) != 0;
    bool is_kept = false;
    binade_status status = BINADE_OK;
    if (is_special && call->is_capturing)
        status = binadei_privates_free(call, block, address, NULL, &is_kept);
    if (status == BINADE_OK && !is_kept && (is_special || call->is_capturing))
        status = binadei_scopes_free(call, block, address, &is_kept);
    if (status == BINADE_OK && !is_kept && is_special && !call->is_capturing)
        status = binadei_privates_free(call, block, address, NULL, &is_kept);
    return status == BINADE_OK && !is_kept ? put_shared(call, block, address)
                                           : status;
}

static binade_status free_in(struct binadei_call *call, binade_devptr address,
                             size_t size_bytes, struct binadei_block *block)
{
    if (call->pool->body->checked)
        return binadei_checked_free(call, address, size_bytes, NULL);
    binade_status status = binadei_block_at(call->engine, address, block);
    if (status == BINADE_OK)
        status = check_size(block, size_bytes);
    return status == BINADE_OK ? put(call, block, address) : status;
}

static binade_status free_and_note(struct binadei_call *call,
                                   binade_devptr address, size_t size_bytes)
{
    struct binadei_block block = {.grains = 0};
    uint64_t ticks = binadei_ticks_before(call);
    binade_status status = free_in(call, address, size_bytes, &block);
    const struct binadei_note note = {
        .kind = size_bytes ? BINADE_HISTORY_FREE_SIZED : BINADE_HISTORY_FREE,
        .status = status,
        .ticks = ticks,
        .address = address,
        .size_bytes =
            size_bytes ? size_bytes : block.grains * BINADEI_GRAIN_BYTES,
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
    binade_status status = binadei_checked_begin(pool, stream, &call);
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

/* Inside: whether the thread's cache took the block, plain or a tenant's. */
static inline bool give_by(const struct binadei_thread *thread,
                           const struct binadei_route *route, binade_pool *pool,
                           binade_devptr address)
{
    binadei_grain start = {0};
    uint8_t byte = binadei_hit_byte(pool, address, &start);
    return binadei_hit_free_noted(route, address, byte, start) ||
           binadei_tenant_free(thread, route, pool, address);
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

binade_status binade_free_cached(binade_pool *pool, binade_devptr address,
                                 binade_stream stream)
{
    if (!pool)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_free_cached: pool is NULL");
    return give_cached(pool, address, stream) ? BINADE_OK : BINADE_E_BUSY;
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
            binadei_tenant_free(thread, route, pool, address));
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
static struct binadei_cache *own_cache(struct binadei_thread *thread,
                                       const binade_pool *pool, uint32_t note)
{
    const struct binadei_route *last = thread->last;
    if (last && last->note == note &&
        binadei_hit_is_right(last, pool, last->stream) &&
        !binadei_hit_is_claimed(thread))
        return last->push;
    const struct binadei_route *done =
        binadei_hit_find(thread, pool, BINADE_STREAM_DONE);
    struct binadei_cache *cache = done ? done->push->member->caches : NULL;
    while (cache && cache->slot->note != note)
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
    uint32_t note = binadei_note_at(pool->engine->notes, start);
    struct binadei_cache *cache =
        note > BINADEI_NOTE_ANY ? own_cache(thread, pool, note) : NULL;
    bool is_given =
        cache && binadei_hit_push(&cache->magazines[byte - 1], address);
    binadei_thread_leave(thread);
    return is_given;
}

/* A call for DONE goes on as one for the stream that the block was allocated
 * for. An address that is no block's is for the free to refuse. */
static binade_status turn_to_own(struct binadei_call *call,
                                 binade_devptr address)
{
    struct binadei_block block;
    if (!(call->pool->body->options.flags & BINADE_POOL_NOTE_STREAMS))
        return binadei_fail(BINADE_E_UNSUPPORTED, "the pool was made without "
                                                  "BINADE_POOL_NOTE_STREAMS");
    if (binadei_is_lost(call->pool))
        return BINADE_OK;
    if (call->pool->body->checked)
        return binadei_checked_turn(call, address);
    if (binadei_block_at(call->engine, address, &block) != BINADE_OK)
        return BINADE_OK;
    binade_status status = binadei_call_turn(
        call, binadei_note_at(call->engine->notes, block.start));
    return status == BINADE_OK ? binadei_call_look(call) : status;
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
    bool is_dead =
        !pool || (binadei_attention(pool) & BINADEI_ATTENTION_DEAD) != 0;
    return !is_dead && give_own(pool, address) ? BINADE_OK
                                               : free_own_slow(pool, address);
}

binade_status binade_free_batch(binade_pool *pool,
                                const binade_devptr *addresses, size_t count,
                                binade_stream stream, size_t *out_freed)
{
    binade_status status = BINADE_OK;
    size_t freed = 0;
    if (!addresses && count)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_free_batch: addresses is NULL");
    while (freed < count) {
        status = binade_free(pool, addresses[freed], stream);
        if (status != BINADE_OK)
            break;
        freed++;
    }
    if (out_freed)
        *out_freed = freed;
    return status;
}

binade_status binade_usable_size(binade_pool *pool, binade_devptr address,
                                 size_t *out)
{
    struct binadei_call call;
    struct binadei_block block;
    if (!out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_usable_size: out is NULL");
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    if (pool->body->checked) {
        status = binadei_checked_size(&call, address, out);
    } else {
        status = binadei_block_at(call.engine, address, &block);
        if (status == BINADE_OK)
            *out = block.grains * BINADEI_GRAIN_BYTES;
    }
    binadei_call_leave(&call);
    return status;
}
