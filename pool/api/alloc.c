/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocation: the hit, and what is checked when it is none.
 */
#include "moiety/pool.h"

#include "pool/api/alloc.h"
#include "pool/api/plain.h"
#include "pool/base/failure.h"
#include "pool/base/later.h"
#include "pool/cache/gate.h"
#include "pool/cache/hit.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/core/recorded.h"
#include "pool/oom/escalate.h"
#include "pool/oom/watermark.h"

static moiety_status alloc_in(struct moietyi_call *call,
                              const struct moietyi_alloc_args *args,
                              moiety_devptr *out)
{
    uint64_t limit_bytes = moietyi_limit_of(call->pool->body);
    if (!args->size_bytes) {
        *out = 0;
        return MOIETY_OK;
    }
    if (args->size_bytes > limit_bytes)
        return moietyi_fail(MOIETY_E_TOO_LARGE,
                            "%zu bytes: the pool never reserves more than %llu",
                            args->size_bytes, (unsigned long long)limit_bytes);
    return call->pool->body->ops->alloc(call, args, out);
}

static void alloc_note(const struct moietyi_call *call,
                       const struct moietyi_alloc_args *args,
                       moiety_status status, const moiety_devptr *out)
{
    const struct moietyi_note note = {
        .kind = MOIETY_HISTORY_ALLOC,
        .status = status,
        .address = status == MOIETY_OK ? *out : 0,
        .size_bytes = args->size_bytes,
        .stream = call->stream,
    };
    moietyi_note(call, &note);
}

static __attribute__((noinline)) moiety_status
alloc_slow(moiety_pool *pool, const struct moietyi_alloc_args *args,
           moiety_stream stream, moiety_devptr *out)
{
    struct moietyi_call call;
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID, "moiety_alloc: out is NULL");
    if (args->may_wait)
        moietyi_later_run(MOIETYI_END_GLANCES);
    moiety_status status = moietyi_begin(pool, stream, &call);
    if (status != MOIETY_OK)
        return status;
    status = alloc_in(&call, args, out);
    alloc_note(&call, args, status, out);
    if (args->may_wait)
        moietyi_watermark_look(&call);
    moietyi_call_end(&call);
    return status;
}

moiety_status moietyi_alloc(moiety_pool *pool,
                            const struct moietyi_alloc_args *args,
                            moiety_stream stream, moiety_devptr *out)
{
    return alloc_slow(pool, args, stream, out);
}

/* A block of the thread's cache for any stream; 0: none. */
static inline moiety_devptr take_cached(moiety_pool *pool, size_t size_bytes,
                                        moiety_stream stream)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    if (!moietyi_hit_begin(thread))
        return 0;
    const struct moietyi_route *route = moietyi_hit_find(thread, pool, stream);
    moiety_devptr address = route ? moietyi_hit_alloc(route, size_bytes) : 0;
    moietyi_thread_leave(thread);
    if (!address && moietyi_is_recorded(pool))
        address = moietyi_recorded_alloc(pool, size_bytes, stream);
    return address;
}

/* A failed search is repeated the long way. After a failure, so many misses go
 * there at once. */
#define PASSED_BY 15U

/* Whether the long way is due, which looks at more. */
static bool is_long_due(const struct moietyi_call *call)
{
    if (call->thread_state->passed_by) {
        call->thread_state->passed_by--;
        return true;
    }
    return call->thread_state->is_refused ||
           moietyi_watermark_is_exceeded_by(call->pool->body, 0);
}

/* Takes free memory. False: there is none. */
static inline bool take_plain(struct moietyi_call *call, size_t size_bytes,
                              moiety_devptr *out)
{
    const struct moietyi_request request = {
        moietyi_size_of_bytes(size_bytes), size_bytes,
        moietyi_plain_is_on_page(call, size_bytes) ? MOIETYI_PAGE_GRAINS : 1,
        false};
    if (!moietyi_take_free(call, &request, out))
        return false;
    if (call->engine->notes)
        moietyi_note_stream(call, *out);
    return true;
}

/* Inside, by a right route: serves a miss that needs neither the driver nor
 * other threads from free memory outside of the thread's caches. False: there
 * is none, or the call is not that simple. `is_only`: the caller has no other
 * way. */
static inline bool take_inside(moiety_pool *pool, struct moietyi_thread *thread,
                               const struct moietyi_route *route,
                               size_t size_bytes, bool is_only,
                               moiety_devptr *out)
{
    struct moietyi_call call;
    bool is_taken = false;
    if (!moietyi_call_begin_plain(pool, thread, route, &call))
        return false;
    if (moietyi_gate_is_open(call.engine) &&
        size_bytes <= moietyi_limit_of(pool->body) &&
        (is_only || !is_long_due(&call))) {
        is_taken = take_plain(&call, size_bytes, out);
        if (!is_taken)
            call.thread_state->passed_by = PASSED_BY;
    }
    moietyi_call_end_plain(&call);
    return is_taken;
}

static inline bool take_free(moiety_pool *pool, size_t size_bytes,
                             moiety_stream stream, bool is_only,
                             moiety_devptr *out)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    if (!size_bytes || !moietyi_hit_begin(thread))
        return false;
    const struct moietyi_route *route = moietyi_hit_route(thread, pool, stream);
    bool is_taken =
        route && take_inside(pool, thread, route, size_bytes, is_only, out);
    moietyi_thread_leave(thread);
    return is_taken;
}

/* No hit. Its arguments are those of moiety_alloc(), which then has nothing to save
 * and ends with a jump. So are those of the next one. */
static __attribute__((noinline)) moiety_status alloc_miss(moiety_pool *pool,
                                                          size_t size_bytes,
                                                          moiety_stream stream,
                                                          moiety_devptr *out)
{
    const struct moietyi_alloc_args args = {
        .size_bytes = size_bytes, .alignment_bytes = 1, .may_wait = true};
    return out && take_free(pool, size_bytes, stream, false, out)
               ? MOIETY_OK
               : alloc_slow(pool, &args, stream, out);
}

/* Not the last stream, or no plain hit. */
static __attribute__((noinline)) moiety_status alloc_other(moiety_pool *pool,
                                                           size_t size_bytes,
                                                           moiety_stream stream,
                                                           moiety_devptr *out)
{
    moiety_devptr address = out ? take_cached(pool, size_bytes, stream) : 0;
    if (!address)
        return alloc_miss(pool, size_bytes, stream, out);
    *out = address;
    return MOIETY_OK;
}

moiety_status moiety_alloc(moiety_pool *pool, size_t size_bytes,
                           moiety_stream stream, moiety_devptr *out)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    if (!MOIETYI_LIKELY(out) || !moietyi_hit_begin(thread))
        return alloc_other(pool, size_bytes, stream, out);
    const struct moietyi_route *route = moietyi_hit_last(thread, pool, stream);
    moiety_devptr address =
        MOIETYI_LIKELY(route) ? moietyi_hit_alloc(route, size_bytes) : 0;
    moietyi_thread_leave(thread);
    if (!MOIETYI_LIKELY(address))
        return route ? alloc_miss(pool, size_bytes, stream, out)
                     : alloc_other(pool, size_bytes, stream, out);
    *out = address;
    return MOIETY_OK;
}

moiety_status moietyi_alloc_no_call(moiety_pool *pool, size_t size_bytes,
                                    moiety_stream stream, moiety_devptr *out)
{
    if (!pool || !out)
        return moietyi_fail(MOIETY_E_INVALID, "moiety_alloc_with: %s is NULL",
                            pool ? "out" : "pool");
    moiety_devptr address = take_cached(pool, size_bytes, stream);
    if (!address)
        return take_free(pool, size_bytes, stream, true, out)
                   ? MOIETY_OK
                   : MOIETY_E_WOULD_BLOCK;
    *out = address;
    return MOIETY_OK;
}
