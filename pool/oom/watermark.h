/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The soft limit on what a pool reserves: how it gets below it again. That it
 * tries not to get above is the escalation's.
 */
#ifndef MOIETY_POOL_OOM_WATERMARK_H_
#define MOIETY_POOL_OOM_WATERMARK_H_

#include "pool/core/body.h"

/* Gives segments back that are wholly free, as long as more than the watermark
 * is reserved, if the device has no work. */
void moietyi_watermark_trim(struct moietyi_call *call);

/* Whether `more_bytes` would be too much. */
static inline bool
moietyi_watermark_is_exceeded_by(const struct moietyi_pool_body *body,
                                 uint64_t more_bytes)
{
    uint64_t watermark_bytes = body->options.watermark_bytes;
    return watermark_bytes &&
           moietyi_segments_reserved_bytes(body->segments) + more_bytes >
               watermark_bytes;
}

/* At the end of a call that may wait: a look that costs next to nothing. */
static inline void moietyi_watermark_look(struct moietyi_call *call)
{
    if (moietyi_watermark_is_exceeded_by(call->pool->body, 0))
        moietyi_watermark_trim(call);
}

#endif
