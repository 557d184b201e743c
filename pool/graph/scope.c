/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of capture scopes: arguments, and the guard.
 */
#include "moiety/scope.h"

#include "pool/base/failure.h"
#include "pool/base/handles.h"
#include "pool/base/later.h"
#include "pool/cache/cache.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"
#include "pool/stream/capture_guard.h"

bool moietyi_scope_may_capture(moiety_stream stream)
{
    return stream && stream != MOIETY_STREAM_LEGACY &&
           stream != MOIETY_STREAM_ANY && stream != MOIETY_STREAM_DONE;
}

moiety_status moiety_scope_begin(moiety_pool *pool, moiety_stream stream,
                                 moiety_scope *out)
{
    struct moietyi_call call;
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_scope_begin: out is NULL");
    if (!moietyi_scope_may_capture(stream))
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_scope_begin: not a stream that can "
                            "capture");
    moiety_status status = moietyi_begin(pool, stream, &call);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_scope_open(&call, NULL, out);
    if (status == MOIETY_OK) {
        moietyi_reclaim_before_capture(&call);
        moietyi_capture_guard_begin();
    }
    moietyi_call_end(&call);
    return status;
}

/* A call on the scope's pool. */
static moiety_status scope_begin(moiety_scope scope, moiety_stream stream,
                                 struct moietyi_call *out)
{
    struct moiety_pool *pool;
    moiety_status status = moietyi_scope_pool(moietyi_number_of_scope(scope),
                                              "capture scope", &pool);
    return status == MOIETY_OK ? moietyi_call_begin(pool, stream, out) : status;
}

moiety_status moiety_scope_end(moiety_scope scope)
{
    struct moietyi_call call;
    moiety_status status = scope_begin(scope, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_scopes *scopes = call.pool->body->scopes;
    struct moietyi_private *arena = moietyi_scope_arena(scopes, scope);
    status = moietyi_scope_close(scopes, scope);
    if (status == MOIETY_OK && arena)
        moietyi_private_end_scope(arena, scope);
    if (status == MOIETY_OK)
        status = moietyi_capture_guard_end();
    moietyi_call_leave(&call);
    if (status == MOIETY_OK && !moietyi_capture_guard_is_held())
        moietyi_later_run(MOIETYI_END_LOOKS);
    return status;
}

moiety_status moiety_scope_release(moiety_scope scope)
{
    struct moietyi_call call;
    moiety_status status = scope_begin(scope, MOIETY_STREAM_ANY, &call);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_scope_release(&call, scope);
    moietyi_call_end(&call);
    return status;
}

moiety_status moiety_scope_release_all(moiety_pool *pool)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_ANY, &call);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_scopes_release(&call);
    moietyi_call_end(&call);
    return status;
}
