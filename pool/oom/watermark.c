/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source may stall the process to take a segment back, and to find one that
 * is free costs a walk over all words. So a thread looks once for so much that
 * it has given to the buddy itself: no segment becomes free without.
 */
#include "pool/oom/watermark.h"

/* The part of what is reserved, and at least a page. */
#define LOOK_SHARE 32U

static bool watermark_is_due(struct moietyi_thread_state *thread_state,
                             uint64_t reserved_bytes)
{
    uint64_t given_bytes =
        thread_state->given_bytes - thread_state->looked_at_bytes;
    uint64_t due_bytes = reserved_bytes / LOOK_SHARE;
    if (given_bytes < MOIETYI_PAGE_BYTES || given_bytes < due_bytes)
        return false;
    thread_state->looked_at_bytes = thread_state->given_bytes;
    return true;
}

void moietyi_watermark_trim(struct moietyi_call *call)
{
    const struct moietyi_pool_body *body = call->pool->body;
    uint64_t trimmed_bytes;
    if (!watermark_is_due(call->thread_state,
                          moietyi_segments_reserved_bytes(body->segments)))
        return;
    moietyi_call_pass_gate(call);
    /* What the source refuses counts as unreleased, and is tried again. */
    (void)moietyi_trim_for(call, body->options.watermark_bytes, &trimmed_bytes);
}
