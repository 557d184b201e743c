/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Finding a free segment costs a walk over all segments. So a thread looks only
 * after it has made a certain amount of memory done, because no segment becomes
 * free otherwise. Segments that stay because the device works, and memory that
 * streams freed, are looked at again every so many times.
 */
#include "pool/oom/watermark.h"

#include "pool/oom/give_back.h"
#include "pool/stream/epoch.h"

/* The part of what is reserved, and at least a page. */
#define LOOK_SHARE 32U
#define LOOKS_APART 64U

static bool watermark_is_due(struct moietyi_thread_state *thread_state,
                             uint64_t reserved_bytes, bool is_long_ago)
{
    uint64_t given_bytes =
        thread_state->given_bytes - thread_state->looked_at_bytes;
    uint64_t due_bytes = reserved_bytes / LOOK_SHARE;
    if ((given_bytes < MOIETYI_PAGE_BYTES || given_bytes < due_bytes) &&
        !(is_long_ago && thread_state->is_held_up))
        return false;
    thread_state->looked_at_bytes = thread_state->given_bytes;
    return true;
}

/* Memory that streams freed becomes done only if a thread records an event. */
static void watermark_close(struct moietyi_call *call, uint64_t reserved_bytes)
{
    bool was_pressed = call->is_pressed;
    if (moietyi_epochs_bytes(&call->engine->streams) <
        reserved_bytes / LOOK_SHARE)
        return;
    call->is_pressed = true;
    (void)moietyi_reclaim_done(call);
    call->is_pressed = was_pressed;
}

void moietyi_watermark_trim(struct moietyi_call *call)
{
    const struct moietyi_pool_body *body = call->pool->body;
    uint64_t reserved_bytes = moietyi_segments_reserved_bytes(body->segments);
    struct moietyi_thread_state *thread_state = call->thread_state;
    bool is_long_ago = ++thread_state->watermark_looks % LOOKS_APART == 0;
    struct moietyi_given_back given;
    if (is_long_ago)
        watermark_close(call, reserved_bytes);
    if (!watermark_is_due(thread_state, reserved_bytes, is_long_ago))
        return;
    moietyi_call_pass_gate(call);
    /* Segments that the source refuses count as unreleased, and are tried
     * again. */
    (void)moietyi_give_back(call, body->options.watermark_bytes, &given);
    thread_state->is_held_up = given.is_held_up;
}
