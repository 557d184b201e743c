/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The soft limit on what a pool reserves: how the pool gets below it again.
 * Escalation tries to stay below it.
 */
#ifndef MOIETY_POOL_OOM_WATERMARK_H_
#define MOIETY_POOL_OOM_WATERMARK_H_

#include "pool/core/body.h"

/* Gives wholly free segments back while more than the watermark is reserved, if
 * the device is idle. */
void moietyi_watermark_trim(struct moietyi_call *call);

/* Whether `more_bytes` would exceed the watermark. */
static inline bool
moietyi_watermark_is_exceeded_by(const struct moietyi_pool_body *body,
                                 uint64_t more_bytes)
{
    uint64_t watermark_bytes = body->options.watermark_bytes;
    return watermark_bytes &&
           moietyi_segments_reserved_bytes(body->segments) + more_bytes >
               watermark_bytes;
}

/* At the end of a call that may wait: a cheap check. */
static inline void moietyi_watermark_look(struct moietyi_call *call)
{
    if (moietyi_watermark_is_exceeded_by(call->pool->body, 0))
        moietyi_watermark_trim(call);
}

#endif
