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

void moietyi_block_record_discharge(const struct moietyi_call *call,
                                    struct moietyi_block_record *record)
{
    if (record->tenant)
        moietyi_account_release(&record->tenant->account, call->thread->number,
                                moietyi_tenant_bytes(record->size_bytes));
    record->tenant = NULL;
    if (record->arena_ref.arena)
        moietyi_private_discharge(&record->arena_ref, record->size_bytes);
    record->arena_ref.arena = NULL;
}

/* Puts the pattern where the free itself is: what the program queues there
 * later is later than that. Where the block has other users, or the stream is
 * nobody's, it is filled when all is over. */
static void checked_pending_fill(struct moietyi_call *call,
                                 struct moietyi_block_record *record,
                                 CUevent event)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    CUstream stream =
        event || record->is_shared ? NULL : moietyi_wait_stream(call);
    if (stream)
        record->is_filled = moietyi_block_record_fill(checked, record, stream);
}

/* Calls that the driver must get before the free is recorded. */
static moiety_status
checked_pending_prepare(struct moietyi_call *call,
                        struct moietyi_block_record *record, CUevent event)
{
    struct moietyi_pool_body *body = call->pool->body;
    struct moietyi_section section;
    if (!event && call->stream == MOIETY_STREAM_DONE &&
        !body->checked->is_checked)
        return MOIETY_OK;
    moiety_status status = moietyi_context_enter(&body->own_context, &section);
    if (status != MOIETY_OK)
        return status;
    if (!event && moietyi_wait_is_capturing(call)) {
        status = moietyi_fail(MOIETY_E_CAPTURING,
                              "the stream is capturing a graph, which may use "
                              "the block at 0x%llx whenever it runs",
                              record->address);
    } else if (!event && call->stream == MOIETY_STREAM_DONE) {
        moietyi_checked_count_busy(call, record);
    } else if (body->checked->is_checked) {
        checked_pending_fill(call, record, event);
    }
    (void)moietyi_section_leave(&section);
    return status;
}

static moiety_status checked_pending(struct moietyi_call *call,
                                     struct moietyi_block_record *record,
                                     CUevent event)
{
    moiety_status status = checked_pending_prepare(call, record, event);
    return status == MOIETY_OK
               ? moietyi_wait_begin(call, record->address, event, &record->wait)
               : status;
}

moiety_status
moietyi_block_record_set_pending(struct moietyi_call *call,
                                 struct moietyi_block_record *record,
                                 CUevent event)
{
    /* Of memory that went with its context nothing is pending. */
    if (moietyi_is_lost(call->pool))
        return MOIETY_OK;
    moiety_status status = checked_pending(call, record, event);
    return moietyi_is_lost(call->pool) ? MOIETY_OK : status;
}
