/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of private arenas: arguments, and the scopes' guard.
 */
#include "binade/private.h"

#include <stddef.h>
#include <string.h>

#include "pool/base/failure.h"
#include "pool/config/options.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/core/recorded.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"
#include "pool/segment/segment.h"
#include "pool/stream/capture_guard.h"

#define KNOWN_FLAGS (BINADE_PRIVATE_FIXED | BINADE_PRIVATE_PAUSABLE)

/* Bytes of the struct's first version, which every later one begins with. */
#define INFO_BYTES_MIN                                                         \
    (offsetof(binade_private_info, waiting_bytes) + sizeof(uint64_t))

/* Memory that is not mapped never moves, and never goes. */
static binade_status make_for(struct binadei_call *call,
                              const binade_private_options *options,
                              binade_private *out)
{
    const struct binadei_pool_body *body = call->pool->body;
    bool is_mapped =
        binadei_segments_are_mapped(body->segments) && !body->ops->has_records;
    if (options->flags & BINADE_PRIVATE_PAUSABLE && !is_mapped) {
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "only memory of a pool with BINADE_POOL_MAPPED can "
                            "be paused, and not in a checked pool");
    }
    return binadei_private_make(call, options->limit_bytes,
                                is_mapped ? options->flags : 0, out);
}

binade_status binade_private_create_with(binade_pool *pool,
                                         const binade_private_options *options,
                                         binade_private *out)
{
    struct binadei_call call;
    if (!out || !options || options->struct_size < sizeof(*options) ||
        options->flags & ~KNOWN_FLAGS ||
        (options->limit_bytes && options->limit_bytes < BINADEI_PAGE_BYTES))
        return binadei_fail(BINADE_E_INVALID,
                            "binade_private_create: out is NULL, the limit "
                            "below 2 MiB, or options are not known");
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    status = make_for(&call, options, out);
    binadei_call_leave(&call);
    return status;
}

binade_status binade_private_create(binade_pool *pool, uint64_t limit_bytes,
                                    binade_private *out)
{
    const binade_private_options options = {.struct_size = sizeof(options),
                                            .limit_bytes = limit_bytes};
    return binade_private_create_with(pool, &options, out);
}

static binade_status no_arena(const char *why)
{
    (void)binadei_fail(BINADE_E_INVALID, "%s", why);
    return BINADE_E_INVALID;
}

/* A call on the arena's pool. As of no pool, the number is looked up. */
static binade_status private_call_begin(binade_private arena,
                                        binade_stream stream,
                                        struct binadei_call *call,
                                        struct binadei_private_ref *out)
{
    struct binadei_thread *thread;
    binade_status status = binadei_thread_enter(&thread);
    if (status != BINADE_OK)
        return status;
    struct binade_pool *pool = binadei_scope_pool(arena);
    binadei_thread_leave(thread);
    if (!pool)
        return no_arena("no such private arena: it was released before, or its "
                        "pool is gone");
    status = binadei_begin(pool, stream, call);
    if (status != BINADE_OK)
        return status;
    *out = (struct binadei_private_ref){
        binadei_private_find(pool->body->privates, arena), arena};
    if (out->arena)
        return BINADE_OK;
    binadei_call_end(call);
    return no_arena("the number is of no private arena");
}

/* What has no memory cannot be the pool's: said before the scopes go. */
static binade_status check_release(const struct binadei_private_ref *ref)
{
    binade_status status = binadei_private_enter(ref);
    if (status != BINADE_OK)
        return status;
    bool may_end = binadei_private_may_end(ref->arena);
    binadei_private_leave(ref->arena);
    return may_end ? BINADE_OK
                   : binadei_fail(BINADE_E_BUSY,
                                  "the private arena is paused and has blocks "
                                  "in use, or another thread pauses or resumes "
                                  "it");
}

static binade_status release_scopes(struct binadei_call *call,
                                    const struct binadei_private_ref *ref)
{
    struct binadei_scopes *scopes = call->pool->body->scopes;
    binade_status status = BINADE_OK;
    binade_scope scope;
    while (status == BINADE_OK &&
           (scope = binadei_scope_of_arena(scopes, ref->arena)))
        status = binadei_scope_release(call, scope);
    return status;
}

binade_status binade_private_release(binade_private arena)
{
    struct binadei_call call;
    struct binadei_private_ref ref;
    binade_status status =
        private_call_begin(arena, BINADE_STREAM_ANY, &call, &ref);
    if (status != BINADE_OK)
        return status;
    status = check_release(&ref);
    if (status == BINADE_OK)
        status = release_scopes(&call, &ref);
    if (status == BINADE_OK)
        status = binadei_private_end(&call, &ref);
    binadei_call_end(&call);
    return status;
}

/* The scope in which the call's stream captures, which must be one of the arena;
 * 0: it does not capture. */
static binade_status find_scope(struct binadei_call *call,
                                const struct binadei_private_ref *ref,
                                binade_scope *out)
{
    *out = 0;
    if (!call->is_capturing)
        return BINADE_OK;
    binade_status status = binadei_scope_of(call, out);
    if (status != BINADE_OK ||
        (*out &&
         binadei_scope_arena(call->pool->body->scopes, *out) == ref->arena))
        return status;
    return binadei_fail(BINADE_E_CAPTURING,
                        "the stream captures a graph, in no scope of this "
                        "private arena: call binade_private_scope_begin()");
}

static binade_status private_call_take(struct binadei_call *call,
                                       const struct binadei_private_ref *ref,
                                       size_t size_bytes, binade_devptr *out)
{
    uint64_t limit_bytes = binadei_limit_of(call->pool->body);
    binade_scope scope;
    if (size_bytes > limit_bytes)
        return binadei_fail(BINADE_E_TOO_LARGE,
                            "%zu bytes: the pool never reserves more than %llu",
                            size_bytes, (unsigned long long)limit_bytes);
    binade_status status = find_scope(call, ref, &scope);
    return status == BINADE_OK ? call->pool->body->ops->alloc_private(
                                     call, ref, scope, size_bytes, out)
                               : status;
}

static void private_call_note(const struct binadei_call *call,
                              binade_status status, binade_devptr address,
                              size_t size_bytes)
{
    const struct binadei_note note = {
        .kind = BINADE_HISTORY_ALLOC,
        .status = status,
        .address = status == BINADE_OK ? address : 0,
        .size_bytes = size_bytes,
        .stream = call->stream,
    };
    binadei_note(call, &note);
}

binade_status binade_private_alloc(binade_private arena, size_t size_bytes,
                                   binade_stream stream, binade_devptr *out)
{
    struct binadei_call call;
    struct binadei_private_ref ref;
    binade_devptr address = 0;
    if (!out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_private_alloc: out is NULL");
    binade_status status = private_call_begin(arena, stream, &call, &ref);
    if (status != BINADE_OK)
        return status;
    if (size_bytes)
        status = private_call_take(&call, &ref, size_bytes, &address);
    private_call_note(&call, status, address, size_bytes);
    binadei_call_end(&call);
    if (status == BINADE_OK)
        *out = address;
    return status;
}

binade_status binade_private_claim(binade_private arena, binade_devptr address,
                                   size_t size_bytes, binade_stream stream)
{
    struct binadei_call call;
    struct binadei_private_ref ref;
    if (!size_bytes || size_bytes > BINADEI_CAPACITY_BYTES ||
        address % BINADEI_GRAIN_BYTES) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_private_claim: %zu bytes at 0x%llx; "
                            "accepted are at least 1, at a multiple of 512",
                            size_bytes, address);
    }
    binade_status status = private_call_begin(arena, stream, &call, &ref);
    if (status != BINADE_OK)
        return status;
    status = call.pool->body->ops->claim(&call, &ref, address, size_bytes);
    private_call_note(&call, status, address, size_bytes);
    binadei_call_end(&call);
    return status;
}

binade_status binade_private_trim(binade_private arena, uint64_t *out_bytes)
{
    struct binadei_call call;
    struct binadei_private_ref ref;
    uint64_t bytes = 0;
    binade_status status =
        private_call_begin(arena, BINADE_STREAM_DONE, &call, &ref);
    if (status != BINADE_OK)
        return status;
    status = binadei_private_shrink(&call, &ref, &bytes);
    binadei_call_end(&call);
    if (status == BINADE_OK && out_bytes)
        *out_bytes = bytes;
    return status;
}

binade_status binade_private_stats(binade_private arena,
                                   binade_private_info *out)
{
    struct binadei_call call;
    struct binadei_private_ref ref;
    binade_private_info info;
    if (!out || out->struct_size < INFO_BYTES_MIN) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_private_stats: out is NULL or its "
                            "struct_size below %zu",
                            INFO_BYTES_MIN);
    }
    binade_status status =
        private_call_begin(arena, BINADE_STREAM_DONE, &call, &ref);
    if (status != BINADE_OK)
        return status;
    status = binadei_private_fill(&ref, &info);
    binadei_call_leave(&call);
    if (status != BINADE_OK)
        return status;
    if (out->struct_size < info.struct_size)
        info.struct_size = out->struct_size;
    memcpy(out, &info, info.struct_size);
    return BINADE_OK;
}

static binade_status open_scope(struct binadei_call *call,
                                const struct binadei_private_ref *ref,
                                binade_scope *out)
{
    binade_status status = binadei_private_begin_scope(call, ref);
    if (status != BINADE_OK)
        return status;
    status = binadei_scope_open(call, ref->arena, out);
    if (status == BINADE_OK) {
        binadei_reclaim_before_capture(call);
        binadei_capture_guard_begin();
        return status;
    }
    binadei_private_end_scope(ref->arena, 0);
    binadei_private_drop_scope(call, ref->arena);
    return status;
}

binade_status binade_private_scope_begin(binade_private arena,
                                         binade_stream stream,
                                         binade_scope *out)
{
    struct binadei_call call;
    struct binadei_private_ref ref;
    if (!out || !binadei_scope_may_capture(stream))
        return binadei_fail(BINADE_E_INVALID,
                            "binade_private_scope_begin: out is NULL, or not a "
                            "stream that can capture");
    binade_status status = private_call_begin(arena, stream, &call, &ref);
    if (status != BINADE_OK)
        return status;
    status = open_scope(&call, &ref, out);
    binadei_call_end(&call);
    return status;
}

binade_status binade_private_pause(binade_private arena, uint32_t flags)
{
    struct binadei_call call;
    struct binadei_private_ref ref;
    if (flags & ~BINADE_PAUSE_KEEP_CONTENTS)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_private_pause: flags 0x%x are not known",
                            flags);
    binade_status status =
        private_call_begin(arena, BINADE_STREAM_DONE, &call, &ref);
    if (status != BINADE_OK)
        return status;
    status = binadei_private_pause(&call, &ref, flags);
    binadei_call_end(&call);
    return status;
}

binade_status binade_private_resume(binade_private arena)
{
    struct binadei_call call;
    struct binadei_private_ref ref;
    binade_status status =
        private_call_begin(arena, BINADE_STREAM_DONE, &call, &ref);
    if (status != BINADE_OK)
        return status;
    status = binadei_private_resume(&call, &ref);
    binadei_call_end(&call);
    return status;
}
