/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocation: the hit, and what is checked when it is none.
 */
#include "binade/pool.h"

#include "pool/alloc.h"
#include "pool/base/failure.h"
#include "pool/cache/hit.h"
#include "pool/checked.h"
#include "pool/ladder.h"
#include "pool/options.h"
#include "pool/recorded.h"
#include "pool/scopes.h"
#include "pool/watermark.h"

static binade_status check(const struct binadei_wish *wish,
                           const binade_devptr *out)
{
    size_t alignment = wish->alignment_bytes;
    if (!out)
        return binadei_fail(BINADE_E_INVALID, "binade_alloc: out is NULL");
    if (!alignment || alignment & (alignment - 1) ||
        alignment > BINADEI_PAGE_BYTES) {
        return binadei_fail(BINADE_E_INVALID,
                            "alignment %zu: must be a power of two up to "
                            "2 MiB",
                            alignment);
    }
    return BINADE_OK;
}

/* What other processes map begins on a page where it is larger than half of one,
 * so that they find it as they would an allocation of the driver's. */
static uint32_t alignment_grains(const struct binadei_call *call,
                                 const struct binadei_wish *wish)
{
    if (call->pool->body->exports && wish->size_bytes > BINADEI_PAGE_BYTES / 2)
        return BINADEI_PAGE_GRAINS;
    return wish->alignment_bytes > BINADEI_GRAIN_BYTES
               ? (uint32_t)(wish->alignment_bytes / BINADEI_GRAIN_BYTES)
               : 1;
}

static binade_status alloc_in(struct binadei_call *call,
                              const struct binadei_wish *wish,
                              binade_devptr *out)
{
    uint64_t limit_bytes = call->pool->body->limit_bytes;
    if (!wish->size_bytes) {
        *out = 0;
        return BINADE_OK;
    }
    if (wish->size_bytes > limit_bytes)
        return binadei_fail(BINADE_E_TOO_LARGE,
                            "%zu bytes: the pool never reserves more than %llu",
                            wish->size_bytes, (unsigned long long)limit_bytes);
    if (call->pool->body->checked)
        return binadei_checked_alloc(call, wish, out);
    const struct binadei_request request = {
        wish->is_exact ? binadei_full_size_of_bytes(wish->size_bytes)
                       : binadei_size_of_bytes(wish->size_bytes),
        wish->size_bytes, alignment_grains(call, wish), wish->is_exact};
    binade_status status =
        call->capture.kind >= BINADEI_CAPTURE_BROKEN
            ? binadei_scopes_alloc(call, &request, wish->may_wait, out)
            : binadei_climb(call, &request, wish->may_wait, out);
    if (status == BINADE_OK)
        binadei_note_stream(call, *out);
    return status;
}

static void note(const struct binadei_call *call,
                 const struct binadei_wish *wish, binade_status status,
                 const binade_devptr *out)
{
    const struct binadei_note note = {
        .kind = BINADE_HISTORY_ALLOC,
        .status = status,
        .address = status == BINADE_OK ? *out : 0,
        .size_bytes = wish->size_bytes,
        .stream = call->stream,
    };
    binadei_note(call, &note);
}

static __attribute__((noinline)) binade_status
alloc_slow(binade_pool *pool, const struct binadei_wish *wish,
           binade_stream stream, binade_devptr *out)
{
    struct binadei_call call;
    binade_status status = check(wish, out);
    if (status != BINADE_OK)
        return status;
    status = binadei_checked_begin(pool, stream, &call);
    if (status != BINADE_OK)
        return status;
    status = alloc_in(&call, wish, out);
    note(&call, wish, status, out);
    if (wish->may_wait)
        binadei_watermark_look(&call);
    binadei_call_end(&call);
    return status;
}

binade_status binadei_alloc(binade_pool *pool, const struct binadei_wish *wish,
                            binade_stream stream, binade_devptr *out)
{
    return alloc_slow(pool, wish, stream, out);
}

/* What the thread's cache has for any stream; 0: nothing. */
static inline binade_devptr take_cached(binade_pool *pool, size_t size_bytes,
                                        binade_stream stream)
{
    struct binadei_thread *thread = binadei_thread_self;
    if (!binadei_hit_begin(thread))
        return 0;
    const struct binadei_route *route = binadei_hit_find(thread, pool, stream);
    binade_devptr address = route ? binadei_hit_alloc(route, size_bytes) : 0;
    binadei_thread_leave(thread);
    if (!address && binadei_is_recorded(pool))
        address = binadei_recorded_alloc(pool, size_bytes, stream);
    return address;
}

/* Not the last stream, or no hit. Its arguments are those of binade_alloc(),
 * which then has nothing to save and ends with a jump. */
static __attribute__((noinline)) binade_status alloc_other(binade_pool *pool,
                                                           size_t size_bytes,
                                                           binade_stream stream,
                                                           binade_devptr *out)
{
    const struct binadei_wish wish = {size_bytes, 1, true, false, NULL};
    binade_devptr address = out ? take_cached(pool, size_bytes, stream) : 0;
    if (!address)
        return alloc_slow(pool, &wish, stream, out);
    *out = address;
    return BINADE_OK;
}

binade_status binade_alloc_cached(binade_pool *pool, size_t size_bytes,
                                  binade_stream stream, binade_devptr *out)
{
    if (!pool || !out)
        return binadei_fail(BINADE_E_INVALID, "binade_alloc_cached: %s is NULL",
                            pool ? "out" : "pool");
    binade_devptr address = take_cached(pool, size_bytes, stream);
    if (!address)
        return BINADE_E_BUSY;
    *out = address;
    return BINADE_OK;
}

binade_status binade_alloc(binade_pool *pool, size_t size_bytes,
                           binade_stream stream, binade_devptr *out)
{
    struct binadei_thread *thread = binadei_thread_self;
    if (BINADEI_LIKELY(out) && binadei_hit_begin(thread)) {
        const struct binadei_route *route =
            binadei_hit_last(thread, pool, stream);
        binade_devptr address =
            BINADEI_LIKELY(route) ? binadei_hit_alloc(route, size_bytes) : 0;
        binadei_thread_leave(thread);
        if (BINADEI_LIKELY(address)) {
            *out = address;
            return BINADE_OK;
        }
    }
    return alloc_other(pool, size_bytes, stream, out);
}

binade_status binade_alloc_aligned(binade_pool *pool, size_t size_bytes,
                                   size_t alignment_bytes, binade_stream stream,
                                   binade_devptr *out)
{
    const struct binadei_wish wish = {size_bytes, alignment_bytes, true, false,
                                      NULL};
    return alloc_slow(pool, &wish, stream, out);
}

binade_status binade_try_alloc(binade_pool *pool, size_t size_bytes,
                               binade_stream stream, binade_devptr *out)
{
    const struct binadei_wish wish = {size_bytes, 1, false, false, NULL};
    return alloc_slow(pool, &wish, stream, out);
}

/* A block that the caller never got. Its last life may still be in use on the
 * stream that it was taken for, unless that is none, or captures and got a
 * block that is done. */
static void give_unused(binade_pool *pool, binade_devptr address,
                        binade_stream stream)
{
    if (stream == BINADE_STREAM_ANY ||
        binade_free(pool, address, stream) == BINADE_E_BUSY)
        /* It cannot be refused twice. */
        if (binade_free(pool, address, BINADE_STREAM_DONE) != BINADE_OK)
            return;
}

/* How many blocks of this size the pool can ever have at once. */
static uint64_t most_blocks(uint64_t limit_bytes, size_t size_bytes)
{
    uint64_t limit_grains = limit_bytes / BINADEI_GRAIN_BYTES;
    uint64_t grains = (size_bytes - 1) / BINADEI_GRAIN_BYTES + 1;
    return limit_grains / grains;
}

/* Refuses what can never be had before the first block is taken. A pool that is
 * NULL or destroyed is left to the first allocation. */
static binade_status check_batch(const binade_pool *pool, size_t size_bytes,
                                 size_t count, const binade_devptr *out)
{
    if (!out && count)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_alloc_batch: out is NULL");
    if (!pool || binadei_attention(pool) & BINADEI_ATTENTION_DEAD)
        return BINADE_OK;
    uint64_t limit_bytes = pool->body->limit_bytes < BINADEI_CAPACITY_BYTES
                               ? pool->body->limit_bytes
                               : BINADEI_CAPACITY_BYTES;
    if (size_bytes && count > most_blocks(limit_bytes, size_bytes)) {
        return binadei_fail(BINADE_E_TOO_LARGE,
                            "%zu blocks of %zu bytes: the pool never reserves "
                            "more than %llu",
                            count, size_bytes, (unsigned long long)limit_bytes);
    }
    if (count > PTRDIFF_MAX / sizeof(*out)) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_alloc_batch: no array has room for %zu "
                            "addresses",
                            count);
    }
    return BINADE_OK;
}

binade_status binade_alloc_batch(binade_pool *pool, size_t size_bytes,
                                 binade_stream stream, size_t count,
                                 binade_devptr *out)
{
    size_t taken = 0;
    binade_status status = check_batch(pool, size_bytes, count, out);
    while (taken < count && status == BINADE_OK) {
        status = binade_alloc(pool, size_bytes, stream, &out[taken]);
        taken += status == BINADE_OK;
    }
    for (size_t i = 0; status != BINADE_OK && i < taken; i++)
        give_unused(pool, out[i], stream);
    return status;
}
