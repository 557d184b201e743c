/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocation: the hit, and what is checked when it is none.
 */
#include "binade/pool.h"

#include "pool/api/alloc.h"
#include "pool/base/failure.h"
#include "pool/cache/gate.h"
#include "pool/cache/hit.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/core/recorded.h"
#include "pool/oom/watermark.h"

static binade_status alloc_check(const struct binadei_alloc_args *args,
                                 const binade_devptr *out)
{
    size_t alignment = args->alignment_bytes;
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

static binade_status alloc_in(struct binadei_call *call,
                              const struct binadei_alloc_args *args,
                              binade_devptr *out)
{
    uint64_t limit_bytes = binadei_limit_of(call->pool->body);
    if (!args->size_bytes) {
        *out = 0;
        return BINADE_OK;
    }
    if (args->size_bytes > limit_bytes)
        return binadei_fail(BINADE_E_TOO_LARGE,
                            "%zu bytes: the pool never reserves more than %llu",
                            args->size_bytes, (unsigned long long)limit_bytes);
    return call->pool->body->ops->alloc(call, args, out);
}

static void alloc_note(const struct binadei_call *call,
                       const struct binadei_alloc_args *args,
                       binade_status status, const binade_devptr *out)
{
    const struct binadei_note note = {
        .kind = BINADE_HISTORY_ALLOC,
        .status = status,
        .address = status == BINADE_OK ? *out : 0,
        .size_bytes = args->size_bytes,
        .stream = call->stream,
    };
    binadei_note(call, &note);
}

static __attribute__((noinline)) binade_status
alloc_slow(binade_pool *pool, const struct binadei_alloc_args *args,
           binade_stream stream, binade_devptr *out)
{
    struct binadei_call call;
    binade_status status = alloc_check(args, out);
    if (status != BINADE_OK)
        return status;
    status = binadei_begin(pool, stream, &call);
    if (status != BINADE_OK)
        return status;
    status = alloc_in(&call, args, out);
    alloc_note(&call, args, status, out);
    if (args->may_wait)
        binadei_watermark_look(&call);
    binadei_call_end(&call);
    return status;
}

binade_status binadei_alloc(binade_pool *pool,
                            const struct binadei_alloc_args *args,
                            binade_stream stream, binade_devptr *out)
{
    return alloc_slow(pool, args, stream, out);
}

/* Inside: small blocks, and runs where they need no alignment of their own. */
static binade_devptr pop_any(const struct binade_pool *pool,
                             const struct binadei_route *route,
                             size_t size_bytes)
{
    binade_devptr address = binadei_hit_alloc(route, size_bytes);
    return address || pool->body->exports
               ? address
               : binadei_hit_pop_run(route->pop, size_bytes);
}

/* What the thread's cache has for any stream; 0: nothing. */
static inline binade_devptr take_cached(binade_pool *pool, size_t size_bytes,
                                        binade_stream stream)
{
    struct binadei_thread *thread = binadei_thread_self;
    if (!binadei_hit_begin(thread))
        return 0;
    const struct binadei_route *route = binadei_hit_find(thread, pool, stream);
    binade_devptr address = route ? pop_any(pool, route, size_bytes) : 0;
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
    const struct binadei_alloc_args args = {
        .size_bytes = size_bytes, .alignment_bytes = 1, .may_wait = true};
    binade_devptr address = out ? take_cached(pool, size_bytes, stream) : 0;
    if (!address)
        return alloc_slow(pool, &args, stream, out);
    *out = address;
    return BINADE_OK;
}

/* What is free beside the thread's caches. */
static binade_status take_free(binade_pool *pool, size_t size_bytes,
                               binade_stream stream, binade_devptr *out)
{
    const struct binadei_alloc_args args = {
        .size_bytes = size_bytes, .alignment_bytes = 1, .is_quick = true};
    struct binadei_call call;
    binade_status status = BINADE_E_BUSY;
    if (!size_bytes || !binadei_call_begin_plain(pool, stream, &call))
        return BINADE_E_BUSY;
    if (binadei_gate_is_open(call.engine) &&
        size_bytes <= binadei_limit_of(pool->body))
        status = pool->body->ops->alloc(&call, &args, out);
    binadei_call_end(&call);
    return status;
}

binade_status binade_alloc_cached(binade_pool *pool, size_t size_bytes,
                                  binade_stream stream, binade_devptr *out)
{
    if (!pool || !out)
        return binadei_fail(BINADE_E_INVALID, "binade_alloc_cached: %s is NULL",
                            pool ? "out" : "pool");
    binade_devptr address = take_cached(pool, size_bytes, stream);
    if (!address)
        return take_free(pool, size_bytes, stream, out);
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
    const struct binadei_alloc_args args = {.size_bytes = size_bytes,
                                            .alignment_bytes = alignment_bytes,
                                            .may_wait = true};
    return alloc_slow(pool, &args, stream, out);
}

binade_status binade_try_alloc(binade_pool *pool, size_t size_bytes,
                               binade_stream stream, binade_devptr *out)
{
    const struct binadei_alloc_args args = {.size_bytes = size_bytes,
                                            .alignment_bytes = 1};
    return alloc_slow(pool, &args, stream, out);
}
