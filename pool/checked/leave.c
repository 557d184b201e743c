/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a block waits for before its memory may be another's, and who is charged
 * for it no more: of frees, and of releases of capture scopes.
 */
#include "pool/base/failure.h"
#include "pool/cache/uses.h"
#include "pool/checked/state.h"
#include "pool/core/ops.h"
#include "pool/driver/section.h"
#include "pool/graph/privates.h"
#include "pool/tenant/directory.h"

void binadei_watch_discharge(const struct binadei_call *call,
                             struct binadei_watch *watch)
{
    if (watch->tenant)
        binadei_account_release(&watch->tenant->account, call->thread->number,
                                binadei_tenant_bytes(watch->size_bytes));
    watch->tenant = NULL;
    if (watch->home.arena)
        binadei_private_discharge(&watch->home, watch->size_bytes);
    watch->home.arena = NULL;
}

/* Puts the pattern where the free itself is: what the program queues there
 * later is later than that. Where the block has other users, or the stream is
 * nobody's, it is filled when all is over. */
static void checked_leave_fill(struct binadei_call *call,
                               struct binadei_watch *watch, CUevent event)
{
    struct binadei_checked *checked = call->pool->body->checked;
    CUstream stream =
        event || watch->is_shared ? NULL : binadei_wait_stream(call);
    if (stream)
        watch->is_filled = binadei_watch_fill(checked, watch, stream);
}

/* What the driver must see before the free is recorded. */
static binade_status checked_leave_prepare(struct binadei_call *call,
                                           struct binadei_watch *watch,
                                           CUevent event)
{
    struct binadei_pool_body *body = call->pool->body;
    struct binadei_section section;
    if (!event && call->stream == BINADE_STREAM_DONE &&
        !body->checked->is_checked)
        return BINADE_OK;
    binade_status status = binadei_context_enter(&body->home, &section);
    if (status != BINADE_OK)
        return status;
    if (!event && binadei_wait_is_capturing(call)) {
        status = binadei_fail(BINADE_E_BUSY,
                              "the stream is capturing a graph, which may use "
                              "the block at 0x%llx whenever it runs",
                              watch->address);
    } else if (!event && call->stream == BINADE_STREAM_DONE) {
        binadei_checked_count_busy(call, watch);
    } else if (body->checked->is_checked) {
        checked_leave_fill(call, watch, event);
    }
    (void)binadei_section_leave(&section);
    return status;
}

static binade_status checked_leave(struct binadei_call *call,
                                   struct binadei_watch *watch, CUevent event)
{
    binade_status status = checked_leave_prepare(call, watch, event);
    return status == BINADE_OK
               ? binadei_wait_begin(call, watch->address, event, &watch->wait)
               : status;
}

binade_status binadei_watch_leave(struct binadei_call *call,
                                  struct binadei_watch *watch, CUevent event)
{
    /* Of memory that went with its context nothing is pending. */
    if (binadei_is_lost(call->pool))
        return BINADE_OK;
    binade_status status = checked_leave(call, watch, event);
    return binadei_is_lost(call->pool) ? BINADE_OK : status;
}
