/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of private arenas: arguments, and the scopes' guard.
 */
#include "moiety/private.h"

#include <stddef.h>
#include <string.h>

#include "pool/base/failure.h"
#include "pool/base/handles.h"
#include "pool/config/options.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/core/recorded.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"
#include "pool/segment/segment.h"
#include "pool/stream/capture_guard.h"

#define KNOWN_FLAGS (MOIETY_PRIVATE_FIXED | MOIETY_PRIVATE_PAUSABLE)

/* Bytes of the struct's first version, which every later one begins with. */
#define INFO_BYTES_MIN                                                         \
    (offsetof(moiety_private_stats, waiting_bytes) + sizeof(uint64_t))

/* Memory that is not mapped never moves, so its arenas are always fixed, and
 * none can be paused. */
static moiety_status make_for(struct moietyi_call *call,
                              const moiety_private_options *options,
                              moiety_private *out)
{
    const struct moietyi_pool_body *body = call->pool->body;
    bool is_mapped =
        moietyi_segments_are_mapped(body->segments) && !body->ops->has_records;
    if (options->flags & MOIETY_PRIVATE_PAUSABLE && !is_mapped) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "only memory of a pool with MOIETY_MEMORY_MAPPED "
                            "can be paused, and not in a checked pool");
    }
    return moietyi_private_make(call, options->limit_bytes,
                                is_mapped ? options->flags : 0, out);
}

moiety_status moiety_private_create(moiety_pool *pool,
                                    const moiety_private_options *options,
                                    moiety_private *out)
{
    static const moiety_private_options defaults = MOIETY_PRIVATE_OPTIONS_INIT;
    struct moietyi_call call;
    if (!options)
        options = &defaults;
    if (!out || options->struct_size < sizeof(*options) ||
        options->flags & ~KNOWN_FLAGS ||
        (options->limit_bytes && options->limit_bytes < MOIETYI_PAGE_BYTES))
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_private_create: out is NULL, the limit "
                            "below 2 MiB, or options are not known");
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    status = make_for(&call, options, out);
    moietyi_call_leave(&call);
    return status;
}

/* A call on the arena's pool. */
static moiety_status private_call_begin(moiety_private arena,
                                        moiety_stream stream,
                                        struct moietyi_call *call,
                                        struct moietyi_private_ref *out)
{
    struct moiety_pool *pool;
    moiety_status status = moietyi_scope_pool(moietyi_number_of_private(arena),
                                              "private arena", &pool);
    if (status == MOIETY_OK)
        status = moietyi_begin(pool, stream, call);
    if (status != MOIETY_OK)
        return status;
    *out = (struct moietyi_private_ref){
        moietyi_private_find(pool->body->privates, arena), arena};
    if (out->arena)
        return MOIETY_OK;
    moietyi_call_end(call);
    return moietyi_private_refuse_gone();
}

/* A paused arena with live blocks cannot be released. Checked before its scopes
 * are. */
static moiety_status check_release(const struct moietyi_private_ref *ref)
{
    moiety_status status = moietyi_private_enter(ref);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_private_check_end(ref->arena);
    moietyi_private_leave(ref->arena);
    return status;
}

static moiety_status release_scopes(struct moietyi_call *call,
                                    const struct moietyi_private_ref *ref)
{
    struct moietyi_scopes *scopes = call->pool->body->scopes;
    moiety_status status = MOIETY_OK;
    moiety_scope scope;
    while (status == MOIETY_OK &&
           (scope = moietyi_scope_of_arena(scopes, ref->arena)))
        status = moietyi_scope_release(call, scope);
    return status;
}

moiety_status moiety_private_destroy(moiety_private arena)
{
    struct moietyi_call call;
    struct moietyi_private_ref ref;
    moiety_status status =
        private_call_begin(arena, MOIETY_STREAM_ANY, &call, &ref);
    if (status != MOIETY_OK)
        return status;
    status = check_release(&ref);
    if (status == MOIETY_OK)
        status = release_scopes(&call, &ref);
    if (status == MOIETY_OK)
        status = moietyi_private_end(&call, &ref);
    moietyi_call_end(&call);
    return status;
}

/* The scope in which the call's stream captures, which must be one of the arena;
 * NULL: it does not capture. */
static moiety_status find_scope(struct moietyi_call *call,
                                const struct moietyi_private_ref *ref,
                                moiety_scope *out)
{
    *out = NULL;
    if (!call->is_capturing)
        return MOIETY_OK;
    moiety_status status = moietyi_scope_of(call, out);
    if (status != MOIETY_OK ||
        (*out &&
         moietyi_scope_arena(call->pool->body->scopes, *out) == ref->arena))
        return status;
    return moietyi_fail(MOIETY_E_CAPTURING,
                        "the stream captures a graph, in no scope of this "
                        "private arena: call moiety_private_scope_begin()");
}

static moiety_status private_call_take(struct moietyi_call *call,
                                       const struct moietyi_private_ref *ref,
                                       const struct moietyi_alloc_args *args,
                                       moiety_devptr *out)
{
    uint64_t limit_bytes = moietyi_limit_of(call->pool->body);
    moiety_scope scope;
    if (args->size_bytes > limit_bytes)
        return moietyi_fail(MOIETY_E_TOO_LARGE,
                            "%zu bytes: the pool never reserves more than %llu",
                            args->size_bytes, (unsigned long long)limit_bytes);
    moiety_status status = find_scope(call, ref, &scope);
    return status == MOIETY_OK ? call->pool->body->ops->alloc_private(
                                     call, ref, scope, args, out)
                               : status;
}

static void private_call_note(const struct moietyi_call *call,
                              moiety_status status, moiety_devptr address,
                              size_t size_bytes)
{
    const struct moietyi_note note = {
        .kind = MOIETY_HISTORY_ALLOC,
        .status = status,
        .address = status == MOIETY_OK ? address : 0,
        .size_bytes = size_bytes,
        .stream = call->stream,
    };
    moietyi_note(call, &note);
}

moiety_status moietyi_private_alloc(moiety_pool *pool, moiety_private arena,
                                    const struct moietyi_alloc_args *args,
                                    moiety_stream stream, moiety_devptr *out)
{
    struct moietyi_call call;
    struct moietyi_private_ref ref;
    moiety_devptr address = 0;
    moiety_status status = private_call_begin(arena, stream, &call, &ref);
    if (status != MOIETY_OK)
        return status;
    if (pool && pool != call.pool)
        status = moietyi_fail(MOIETY_E_INVALID,
                              "option private_arena is one of another pool");
    else if (args->size_bytes)
        status = private_call_take(&call, &ref, args, &address);
    private_call_note(&call, status, address, args->size_bytes);
    moietyi_call_end(&call);
    if (status == MOIETY_OK)
        *out = address;
    return status;
}

moiety_status moiety_private_claim(moiety_private arena, moiety_devptr address,
                                   size_t size_bytes, moiety_stream stream)
{
    struct moietyi_call call;
    struct moietyi_private_ref ref;
    if (!size_bytes || size_bytes > MOIETYI_CAPACITY_BYTES ||
        address % MOIETYI_GRAIN_BYTES) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_private_claim: %zu bytes at 0x%llx; "
                            "accepted are at least 1, at a multiple of 512",
                            size_bytes, address);
    }
    moiety_status status = private_call_begin(arena, stream, &call, &ref);
    if (status != MOIETY_OK)
        return status;
    status = call.pool->body->ops->claim(&call, &ref, address, size_bytes);
    private_call_note(&call, status, address, size_bytes);
    moietyi_call_end(&call);
    return status;
}

moiety_status moiety_private_trim(moiety_private arena, uint64_t *out_bytes)
{
    struct moietyi_call call;
    struct moietyi_private_ref ref;
    uint64_t bytes = 0;
    moiety_status status =
        private_call_begin(arena, MOIETY_STREAM_DONE, &call, &ref);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_private_shrink(&call, &ref, &bytes);
    moietyi_call_end(&call);
    if (status == MOIETY_OK && out_bytes)
        *out_bytes = bytes;
    return status;
}

moiety_status moiety_private_get_stats(moiety_private arena,
                                       moiety_private_stats *out)
{
    struct moietyi_call call;
    struct moietyi_private_ref ref;
    moiety_private_stats info;
    if (!out || out->struct_size < INFO_BYTES_MIN) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_private_get_stats: out is NULL or its "
                            "struct_size below %zu",
                            INFO_BYTES_MIN);
    }
    moiety_status status =
        private_call_begin(arena, MOIETY_STREAM_DONE, &call, &ref);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_private_fill(&ref, &info);
    moietyi_call_leave(&call);
    if (status != MOIETY_OK)
        return status;
    if (out->struct_size < info.struct_size)
        info.struct_size = out->struct_size;
    memcpy(out, &info, info.struct_size);
    return MOIETY_OK;
}

static moiety_status open_scope(struct moietyi_call *call,
                                const struct moietyi_private_ref *ref,
                                moiety_scope *out)
{
    moiety_status status = moietyi_private_begin_scope(call, ref);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_scope_open(call, ref->arena, out);
    if (status == MOIETY_OK) {
        moietyi_reclaim_before_capture(call);
        moietyi_capture_guard_begin();
        return status;
    }
    moietyi_private_end_scope(ref->arena, NULL);
    moietyi_private_drop_scope(call, ref->arena);
    return status;
}

moiety_status moiety_private_scope_begin(moiety_private arena,
                                         moiety_stream stream,
                                         moiety_scope *out)
{
    struct moietyi_call call;
    struct moietyi_private_ref ref;
    if (!out || !moietyi_scope_may_capture(stream))
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_private_scope_begin: out is NULL, or not a "
                            "stream that can capture");
    moiety_status status = private_call_begin(arena, stream, &call, &ref);
    if (status != MOIETY_OK)
        return status;
    status = open_scope(&call, &ref, out);
    moietyi_call_end(&call);
    return status;
}

moiety_status moiety_private_pause(moiety_private arena, uint32_t flags)
{
    struct moietyi_call call;
    struct moietyi_private_ref ref;
    if (flags & ~MOIETY_PAUSE_KEEP_CONTENTS)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_private_pause: flags 0x%x are not known",
                            flags);
    moiety_status status =
        private_call_begin(arena, MOIETY_STREAM_DONE, &call, &ref);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_private_pause(&call, &ref, flags);
    moietyi_call_end(&call);
    return status;
}

moiety_status moiety_private_resume(moiety_private arena)
{
    struct moietyi_call call;
    struct moietyi_private_ref ref;
    moiety_status status =
        private_call_begin(arena, MOIETY_STREAM_DONE, &call, &ref);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_private_resume(&call, &ref);
    moietyi_call_end(&call);
    return status;
}
