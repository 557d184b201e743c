/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/core/body.h"
#include "pool/core/ops.h"

binade_status binadei_begin(struct binade_pool *pool, binade_stream stream,
                            struct binadei_call *out)
{
    if (!pool || !(binadei_attention(pool) & BINADEI_ATTENTION_WATCHED))
        return binadei_call_begin(pool, stream, out);
    /* First without the stream: a dead one must not be asked anything else. */
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, out);
    if (status != BINADE_OK)
        return status;
    status = pool->body->ops->recognise(out, stream);
    binadei_call_leave(out);
    return status == BINADE_OK ? binadei_call_begin(pool, stream, out) : status;
}
