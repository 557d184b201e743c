/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of capture scopes: arguments, and the guard.
 */
#include "binade/scope.h"

#include "pool/base/failure.h"
#include "pool/cache/cache.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"
#include "pool/stream/capture_guard.h"

bool binadei_scope_may_capture(binade_stream stream)
{
    return stream && stream != BINADE_STREAM_LEGACY &&
           stream != BINADE_STREAM_ANY && stream != BINADE_STREAM_DONE;
}

binade_status binade_scope_begin(binade_pool *pool, binade_stream stream,
                                 binade_scope *out)
{
    struct binadei_call call;
    if (!out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_scope_begin: out is NULL");
    if (!binadei_scope_may_capture(stream))
        return binadei_fail(BINADE_E_INVALID,
                            "binade_scope_begin: not a stream that can "
                            "capture");
    binade_status status = binadei_begin(pool, stream, &call);
    if (status != BINADE_OK)
        return status;
    status = binadei_scope_open(&call, NULL, out);
    if (status == BINADE_OK) {
        binadei_reclaim_before_capture(&call);
        binadei_capture_guard_begin();
    }
    binadei_call_end(&call);
    return status;
}

/* Within a call, as of no pool: a signal handler that comes while a lock is held
 * is refused. */
static binade_status find_pool(binade_scope scope, struct binade_pool **out)
{
    struct binadei_thread *thread;
    binade_status status = binadei_thread_enter(&thread);
    if (status != BINADE_OK)
        return status;
    *out = binadei_scope_pool(scope);
    binadei_thread_leave(thread);
    return *out ? BINADE_OK
                : binadei_fail(BINADE_E_INVALID,
                               "no such capture scope: it was released before, "
                               "or its pool is gone");
}

/* A call on the scope's pool. */
static binade_status scope_begin(binade_scope scope, binade_stream stream,
                                 struct binadei_call *out)
{
    struct binade_pool *pool;
    binade_status status = find_pool(scope, &pool);
    return status == BINADE_OK ? binadei_call_begin(pool, stream, out) : status;
}

binade_status binade_scope_end(binade_scope scope)
{
    struct binadei_call call;
    binade_status status = scope_begin(scope, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    struct binadei_scopes *scopes = call.pool->body->scopes;
    struct binadei_private *arena = binadei_scope_arena(scopes, scope);
    status = binadei_scope_close(scopes, scope);
    if (status == BINADE_OK && arena)
        binadei_private_end_scope(arena, scope);
    if (status == BINADE_OK)
        status = binadei_capture_guard_end();
    binadei_call_leave(&call);
    return status;
}

binade_status binade_scope_release(binade_scope scope)
{
    struct binadei_call call;
    binade_status status = scope_begin(scope, BINADE_STREAM_ANY, &call);
    if (status != BINADE_OK)
        return status;
    status = binadei_scope_release(&call, scope);
    binadei_call_end(&call);
    return status;
}

binade_status binade_scope_release_all(binade_pool *pool)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_ANY, &call);
    if (status != BINADE_OK)
        return status;
    status = binadei_scopes_release(&call);
    binadei_call_end(&call);
    return status;
}
