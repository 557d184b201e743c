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

void binadei_block_record_discharge(const struct binadei_call *call,
                                    struct binadei_block_record *record)
{
    if (record->tenant)
        binadei_account_release(&record->tenant->account, call->thread->number,
                                binadei_tenant_bytes(record->size_bytes));
    record->tenant = NULL;
    if (record->arena_ref.arena)
        binadei_private_discharge(&record->arena_ref, record->size_bytes);
    record->arena_ref.arena = NULL;
}

/* Puts the pattern where the free itself is: what the program queues there
 * later is later than that. Where the block has other users, or the stream is
 * nobody's, it is filled when all is over. */
static void checked_pending_fill(struct binadei_call *call,
                                 struct binadei_block_record *record,
                                 CUevent event)
{
    struct binadei_checked *checked = call->pool->body->checked;
    CUstream stream =
        event || record->is_shared ? NULL : binadei_wait_stream(call);
    if (stream)
        record->is_filled = binadei_block_record_fill(checked, record, stream);
}

/* What the driver must see before the free is recorded. */
static binade_status
checked_pending_prepare(struct binadei_call *call,
                        struct binadei_block_record *record, CUevent event)
{
    struct binadei_pool_body *body = call->pool->body;
    struct binadei_section section;
    if (!event && call->stream == BINADE_STREAM_DONE &&
        !body->checked->is_checked)
        return BINADE_OK;
    binade_status status = binadei_context_enter(&body->own_context, &section);
    if (status != BINADE_OK)
        return status;
    if (!event && binadei_wait_is_capturing(call)) {
        status = binadei_fail(BINADE_E_BUSY,
                              "the stream is capturing a graph, which may use "
                              "the block at 0x%llx whenever it runs",
                              record->address);
    } else if (!event && call->stream == BINADE_STREAM_DONE) {
        binadei_checked_count_busy(call, record);
    } else if (body->checked->is_checked) {
        checked_pending_fill(call, record, event);
    }
    (void)binadei_section_leave(&section);
    return status;
}

static binade_status checked_pending(struct binadei_call *call,
                                     struct binadei_block_record *record,
                                     CUevent event)
{
    binade_status status = checked_pending_prepare(call, record, event);
    return status == BINADE_OK
               ? binadei_wait_begin(call, record->address, event, &record->wait)
               : status;
}

binade_status
binadei_block_record_set_pending(struct binadei_call *call,
                                 struct binadei_block_record *record,
                                 CUevent event)
{
    /* Of memory that went with its context nothing is pending. */
    if (binadei_is_lost(call->pool))
        return BINADE_OK;
    binade_status status = checked_pending(call, record, event);
    return binadei_is_lost(call->pool) ? BINADE_OK : status;
}
