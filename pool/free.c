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
    if (size_bytes <= held_bytes &&
        binadei_size_of_bytes(size_bytes).class_index == block->class_index)
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

/* What a graph may use is kept for it. */
static binade_status put(struct binadei_call *call,
                         const struct binadei_block *block,
                         binade_devptr address)
{
    bool is_kept = false;
    binade_status status = BINADE_OK;
    if (block->byte & BINADEI_BYTE_SPECIAL || call->is_capturing)
        status = binadei_scopes_free(call, block, address, &is_kept);
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

/* The byte that a block of this size has, as far as hits take it; else one that
 * no block has. */
static inline uint32_t byte_of_size(size_t size_bytes)
{
    uint64_t less_one = binadei_hit_less_one(size_bytes);
    if (BINADEI_LIKELY(less_one < BINADEI_SMALL_GRAINS))
        return binadei_small_class_of(less_one) + 1;
    return less_one < BINADEI_HIT_GRAINS ? BINADEI_BYTE_RUN : UINT8_MAX;
}

/* Inside: whether the thread's cache took the block, plain or a tenant's. */
static inline bool give_by(const struct binadei_thread *thread,
                           const struct binadei_route *route, binade_pool *pool,
                           binade_devptr address)
{
    binadei_grain start = {0};
    uint8_t byte = binadei_hit_byte(pool, address, &start);
    return binadei_hit_free_block(route, pool, byte, start, address) ||
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

/* Ends a hit of binade_free() that found a run, on the thread's last route.
 * Apart, so that the hit of a small block saves no registers for it. */
static __attribute__((noinline)) binade_status free_run(binade_pool *pool,
                                                        binade_devptr address,
                                                        binade_stream stream,
                                                        binadei_grain start)
{
    struct binadei_thread *thread = binadei_thread_self;
    bool is_given = binadei_hit_free_run(
        thread->last, binadei_hit_run_grains(pool, start), address);
    binadei_thread_leave(thread);
    return BINADEI_LIKELY(is_given) ? BINADE_OK
                                    : free_other(pool, address, stream);
}

binade_status binade_free(binade_pool *pool, binade_devptr address,
                          binade_stream stream)
{
    struct binadei_thread *thread = binadei_thread_self;
    if (binadei_hit_begin(thread)) {
        const struct binadei_route *route =
            binadei_hit_last(thread, pool, stream);
        binadei_grain start = {0};
        uint32_t byte =
            BINADEI_LIKELY(route) ? binadei_hit_byte(pool, address, &start) : 0;
        if (byte == BINADEI_BYTE_RUN)
            return free_run(pool, address, stream, start);
        bool is_given = BINADEI_LIKELY(byte - 1 < BINADEI_SMALL_CLASSES) &&
                        binadei_hit_free(route, byte - 1, address);
        binadei_thread_leave(thread);
        if (BINADEI_LIKELY(is_given))
            return BINADE_OK;
    }
    return free_other(pool, address, stream);
}

/* Inside: whether the block may have this size, which has that byte. */
static inline bool is_size(const binade_pool *pool, uint32_t byte,
                           binadei_grain start, size_t size_bytes)
{
    return byte != BINADEI_BYTE_RUN ||
           binadei_hit_is_size(binadei_hit_run_grains(pool, start), size_bytes);
}

/* Inside: as give_by(), if the block may have this size. */
static inline bool give_sized_by(const struct binadei_thread *thread,
                                 const struct binadei_route *route,
                                 binade_pool *pool, binade_devptr address,
                                 size_t size_bytes)
{
    binadei_grain start = {0};
    uint32_t byte = byte_of_size(size_bytes);
    uint32_t found = binadei_hit_byte(pool, address, &start);
    if ((found & ~BINADEI_BYTE_SPECIAL) != byte ||
        !is_size(pool, byte, start, size_bytes))
        return false;
    return found == byte ? binadei_hit_free_block(route, pool, (uint8_t)byte,
                                                  start, address)
                         : binadei_tenant_free(thread, route, pool, address);
}

static inline bool give_sized_cached(binade_pool *pool, binade_devptr address,
                                     size_t size_bytes, binade_stream stream)
{
    struct binadei_thread *thread = binadei_thread_self;
    if (!binadei_hit_begin(thread))
        return false;
    const struct binadei_route *route = binadei_hit_find(thread, pool, stream);
    bool is_given =
        route && give_sized_by(thread, route, pool, address, size_bytes);
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

/* The whole hit, of a size that is no small block's; apart as free_run() is. */
static __attribute__((noinline)) binade_status
free_sized_run(binade_pool *pool, binade_devptr address, size_t size_bytes,
               binade_stream stream)
{
    struct binadei_thread *thread = binadei_thread_self;
    if (binadei_hit_begin(thread)) {
        const struct binadei_route *route =
            binadei_hit_last(thread, pool, stream);
        binadei_grain start = {0};
        bool is_run =
            BINADEI_LIKELY(route) &&
            binadei_hit_byte(pool, address, &start) == BINADEI_BYTE_RUN;
        uint64_t grains = is_run ? binadei_hit_run_grains(pool, start) : 0;
        bool is_given = is_run && binadei_hit_is_size(grains, size_bytes) &&
                        binadei_hit_free_run(route, grains, address);
        binadei_thread_leave(thread);
        if (BINADEI_LIKELY(is_given))
            return BINADE_OK;
    }
    return free_sized_other(pool, address, size_bytes, stream);
}

binade_status binade_free_sized(binade_pool *pool, binade_devptr address,
                                size_t size_bytes, binade_stream stream)
{
    struct binadei_thread *thread = binadei_thread_self;
    uint64_t less_one = binadei_hit_less_one(size_bytes);
    if (!BINADEI_LIKELY(less_one < BINADEI_SMALL_GRAINS))
        return free_sized_run(pool, address, size_bytes, stream);
    if (binadei_hit_begin(thread)) {
        const struct binadei_route *route =
            binadei_hit_last(thread, pool, stream);
        uint32_t class_index = binadei_small_class_of(less_one);
        binadei_grain start = {0};
        bool is_given =
            BINADEI_LIKELY(route) &&
            BINADEI_LIKELY(binadei_hit_byte(pool, address, &start) ==
                           class_index + 1) &&
            binadei_hit_free(route, class_index, address);
        binadei_thread_leave(thread);
        if (BINADEI_LIKELY(is_given))
            return BINADE_OK;
    }
    return free_sized_other(pool, address, size_bytes, stream);
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
