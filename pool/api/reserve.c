/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/api/arena.h"

#include "pool/cache/cache.h"
#include "pool/cache/gate.h"
#include "pool/core/body.h"

/* As growing does on the way out of memory: outside of operations, so that
 * nobody waits for the source on our account. */
binade_status binadei_pool_reserve(binade_pool *pool, uint64_t total_bytes)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    binadei_operation_end(call.member);
    status = binadei_segments_grow_to(pool->body->segments, total_bytes);
    binadei_operation_begin(call.member);
    binadei_call_pass_gate(&call);
    binadei_call_end(&call);
    return status;
}
