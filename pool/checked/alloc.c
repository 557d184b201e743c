/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocation in a checked pool: a block with bounds on both sides, and a record
 * of it. Before memory is short for the program, what is held back is let go.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/cache/uses.h"
#include "pool/checked/state.h"
#include "pool/core/ops.h"
#include "pool/oom/escalate.h"
#include "pool/tenant/directory.h"

#define NAP_NS 50000L
#define NAP_MOST_NS 2000000L

static bool checked_alloc_is_short(moiety_status status)
{
    return status == MOIETY_E_NO_DEVICE_MEMORY ||
           status == MOIETY_E_NO_PINNED_MEMORY ||
           status == MOIETY_E_WOULD_BLOCK;
}

/* After the first refusal: takes what is held back and whose work is over, and
 * waits for the rest as long as the options say. */
static moiety_status take_held(struct moietyi_call *call,
                               struct moietyi_block_record *record,
                               size_t alignment_bytes, bool may_wait,
                               moiety_status status)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    uint64_t wait_ns = checked->body->options.wait_ms * UINT64_C(1000000);
    uint64_t end_ns = moietyi_now_ns() + wait_ns;
    long nap_ns = NAP_NS;
    while (checked_alloc_is_short(status)) {
        if (may_wait)
            moietyi_quarantine_synchronise(call);
        if (!moietyi_quarantine_release(call, record->base_bytes)) {
            if (!may_wait || !moietyi_quarantine_is_any(checked) ||
                moietyi_is_overdue(end_ns))
                break;
            moietyi_call_nap(call, &nap_ns, NAP_MOST_NS);
        }
        status = moietyi_backing_take(call, record, alignment_bytes);
    }
    return status;
}

/* The escalation, with its callbacks, its final scan and its report. */
static moiety_status checked_alloc_escalate(struct moietyi_call *call,
                                            struct moietyi_block_record *record,
                                            size_t alignment_bytes)
{
    const struct moietyi_request request = {
        moietyi_size_of_bytes(record->base_bytes), record->base_bytes,
        alignment_bytes > MOIETYI_GRAIN_BYTES
            ? (uint32_t)(alignment_bytes / MOIETYI_GRAIN_BYTES)
            : 1,
        false};
    return moietyi_alloc_escalating(call, &request, true, &record->base);
}

static moiety_status checked_alloc_take(struct moietyi_call *call,
                                        struct moietyi_block_record *record,
                                        size_t alignment_bytes, bool may_wait)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    moiety_status status = moietyi_backing_take(call, record, alignment_bytes);
    if (!checked_alloc_is_short(status))
        return status;
    status = take_held(call, record, alignment_bytes, may_wait, status);
    if (!checked_alloc_is_short(status))
        return status;
    if (!may_wait)
        return moietyi_fail(MOIETY_E_WOULD_BLOCK,
                            "%llu bytes: nothing is free without waiting",
                            (unsigned long long)record->size_bytes);
    return checked->is_passing
               ? status
               : checked_alloc_escalate(call, record, alignment_bytes);
}

/* The alignment of a block's address. */
size_t moietyi_block_record_alignment(const struct moietyi_alloc_args *args)
{
    if (args->size_bytes > MOIETYI_PAGE_BYTES / 2)
        return MOIETYI_PAGE_BYTES;
    return args->alignment_bytes > MOIETYI_GRAIN_BYTES ? args->alignment_bytes
                                                       : MOIETYI_GRAIN_BYTES;
}

void moietyi_block_record_charge(struct moietyi_block_record *record,
                                 const struct moietyi_alloc_args *args)
{
    record->tenant = args->tenant;
    memset(record->tenant_name, 0, sizeof(record->tenant_name));
    if (args->tenant)
        memcpy(record->tenant_name, args->tenant->name,
               sizeof(record->tenant_name));
}

/* A record, and what it will be of. NULL, and why. */
static struct moietyi_block_record *
checked_alloc_make(const struct moietyi_checked *checked,
                   const struct moietyi_alloc_args *args,
                   moiety_status *out_status)
{
    uint64_t limit_bytes = moietyi_limit_of(checked->body);
    uint64_t bytes = args->size_bytes;
    if (checked->is_checked)
        bytes += moietyi_block_record_alignment(args) + MOIETYI_BOUND_BYTES;
    if (bytes > limit_bytes) {
        *out_status = moietyi_fail(
            MOIETY_E_TOO_LARGE,
            "%zu bytes and their bounds: the pool never reserves more than "
            "%llu",
            args->size_bytes, (unsigned long long)limit_bytes);
        return NULL;
    }
    struct moietyi_block_record *record = calloc(1, sizeof(*record));
    if (!record) {
        *out_status = moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                   "no memory to note a block in");
        return NULL;
    }
    record->size_bytes = args->size_bytes;
    record->base_bytes = bytes;
    moietyi_block_record_charge(record, args);
    return record;
}

/* The address, after what is before it. */
static void checked_alloc_place(const struct moietyi_checked *checked,
                                struct moietyi_block_record *record,
                                size_t alignment_bytes)
{
    record->address =
        (record->base + (checked->is_checked ? MOIETYI_BOUND_BYTES : 0) +
         alignment_bytes - 1) &
        ~(moiety_devptr)(alignment_bytes - 1);
}

static void checked_alloc_publish(struct moietyi_checked *checked,
                                  struct moietyi_block_record *record)
{
    pthread_mutex_lock(&checked->lock);
    record->sequence = ++checked->sequence;
    record->state = MOIETYI_BLOCK_LIVE;
    moietyi_block_record_insert(checked, record);
    checked->counts.live_blocks++;
    checked->counts.live_bytes += record->size_bytes;
    checked->alloc_count++;
    checked->alloc_bytes += record->size_bytes;
    uint64_t live_bytes = checked->alloc_bytes - checked->free_bytes;
    if (checked->live_peak_bytes < live_bytes)
        checked->live_peak_bytes = live_bytes;
    pthread_mutex_unlock(&checked->lock);
}

/* A block that nobody got: it is like one that was freed with nothing pending,
 * but nothing is to be seen in it. */
static void checked_alloc_drop(struct moietyi_checked *checked,
                               struct moietyi_block_record *record)
{
    record->is_unissued = true;
    record->is_looked_at = true;
    moietyi_quarantine_add_unissued(checked, record);
}

/* Before others can know the block. */
static moiety_status
checked_alloc_keep(struct moietyi_call *call,
                   const struct moietyi_block_record *record,
                   moiety_scope number, struct moietyi_scope_block *note)
{
    if (!note)
        return MOIETY_OK;
    note->address = record->address;
    note->bytes = record->size_bytes;
    return moietyi_scope_keep(call, number, note, NULL)
               ? MOIETY_OK
               : moietyi_scope_refuse();
}

moiety_status moietyi_block_record_alloc(struct moietyi_call *call,
                                         const struct moietyi_alloc_args *args,
                                         moiety_scope number,
                                         struct moietyi_scope_block *note,
                                         moiety_devptr *out)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    size_t alignment_bytes = moietyi_block_record_alignment(args);
    moiety_status status;
    struct moietyi_block_record *record =
        checked_alloc_make(checked, args, &status);
    if (!record)
        return status;
    status = checked_alloc_take(call, record, alignment_bytes, args->may_wait);
    if (status != MOIETY_OK) {
        free(record);
        return status;
    }
    checked_alloc_place(checked, record, alignment_bytes);
    status = moietyi_block_record_bound(checked, record);
    if (status == MOIETY_OK)
        status = checked_alloc_keep(call, record, number, note);
    if (status != MOIETY_OK) {
        checked_alloc_drop(checked, record);
        return status;
    }
    moietyi_call_site_set(checked, &record->allocated, call->stream);
    record->note = call->push->stream_state->note;
    checked_alloc_publish(checked, record);
    *out = record->address;
    return MOIETY_OK;
}
