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

static bool checked_alloc_is_short(binade_status status)
{
    return status == BINADE_E_NO_DEVICE_MEMORY ||
           status == BINADE_E_NO_PINNED_MEMORY || status == BINADE_E_BUSY;
}

/* After the first refusal: takes what is held back and whose work is over, and
 * waits for the rest as long as the options say. */
static binade_status take_held(struct binadei_call *call,
                               struct binadei_block_record *record,
                               size_t alignment_bytes, bool may_wait,
                               binade_status status)
{
    struct binadei_checked *checked = call->pool->body->checked;
    uint64_t wait_ns = checked->body->options.wait_ms * UINT64_C(1000000);
    uint64_t end_ns = binadei_now_ns() + wait_ns;
    long nap_ns = NAP_NS;
    while (checked_alloc_is_short(status)) {
        if (may_wait)
            binadei_quarantine_synchronise(call);
        if (!binadei_quarantine_release(call, record->base_bytes)) {
            if (!may_wait || !binadei_quarantine_is_any(checked) ||
                binadei_now_ns() >= end_ns)
                break;
            binadei_call_nap(call, &nap_ns, NAP_MOST_NS);
        }
        status = binadei_backing_take(call, record, alignment_bytes);
    }
    return status;
}

/* The escalation, with its callbacks, its final scan and its report. */
static binade_status checked_alloc_escalate(struct binadei_call *call,
                                            struct binadei_block_record *record,
                                            size_t alignment_bytes)
{
    const struct binadei_request request = {
        binadei_size_of_bytes(record->base_bytes), record->base_bytes,
        alignment_bytes > BINADEI_GRAIN_BYTES
            ? (uint32_t)(alignment_bytes / BINADEI_GRAIN_BYTES)
            : 1,
        false};
    return binadei_alloc_escalating(call, &request, true, &record->base);
}

static binade_status checked_alloc_take(struct binadei_call *call,
                                        struct binadei_block_record *record,
                                        size_t alignment_bytes, bool may_wait)
{
    struct binadei_checked *checked = call->pool->body->checked;
    binade_status status = binadei_backing_take(call, record, alignment_bytes);
    if (!checked_alloc_is_short(status))
        return status;
    status = take_held(call, record, alignment_bytes, may_wait, status);
    if (!checked_alloc_is_short(status))
        return status;
    if (!may_wait)
        return binadei_fail(BINADE_E_BUSY,
                            "%llu bytes: nothing is free without waiting",
                            (unsigned long long)record->size_bytes);
    return checked->is_passing
               ? status
               : checked_alloc_escalate(call, record, alignment_bytes);
}

/* What a block's address must be a multiple of. */
size_t binadei_block_record_alignment(const struct binadei_alloc_args *args)
{
    if (args->size_bytes > BINADEI_PAGE_BYTES / 2)
        return BINADEI_PAGE_BYTES;
    return args->alignment_bytes > BINADEI_GRAIN_BYTES ? args->alignment_bytes
                                                       : BINADEI_GRAIN_BYTES;
}

void binadei_block_record_charge(struct binadei_block_record *record,
                                 const struct binadei_alloc_args *args)
{
    record->tenant = args->tenant;
    memset(record->tenant_name, 0, sizeof(record->tenant_name));
    if (args->tenant)
        memcpy(record->tenant_name, args->tenant->name,
               sizeof(record->tenant_name));
}

/* A record, and what it will be of. NULL, and why. */
static struct binadei_block_record *
checked_alloc_make(const struct binadei_checked *checked,
                   const struct binadei_alloc_args *args,
                   binade_status *out_status)
{
    uint64_t limit_bytes = binadei_limit_of(checked->body);
    uint64_t bytes = args->size_bytes;
    if (checked->is_checked)
        bytes += binadei_block_record_alignment(args) + BINADEI_BOUND_BYTES;
    if (bytes > limit_bytes) {
        *out_status = binadei_fail(
            BINADE_E_TOO_LARGE,
            "%zu bytes and their bounds: the pool never reserves more than "
            "%llu",
            args->size_bytes, (unsigned long long)limit_bytes);
        return NULL;
    }
    struct binadei_block_record *record = calloc(1, sizeof(*record));
    if (!record) {
        *out_status = binadei_fail(BINADE_E_NO_HOST_MEMORY,
                                   "no memory to note a block in");
        return NULL;
    }
    record->size_bytes = args->size_bytes;
    record->base_bytes = bytes;
    binadei_block_record_charge(record, args);
    return record;
}

/* The address, after what is before it. */
static void checked_alloc_place(const struct binadei_checked *checked,
                                struct binadei_block_record *record,
                                size_t alignment_bytes)
{
    record->address =
        (record->base + (checked->is_checked ? BINADEI_BOUND_BYTES : 0) +
         alignment_bytes - 1) &
        ~(binade_devptr)(alignment_bytes - 1);
}

static void checked_alloc_publish(struct binadei_checked *checked,
                                  struct binadei_block_record *record)
{
    pthread_mutex_lock(&checked->lock);
    record->sequence = ++checked->sequence;
    record->state = BINADEI_BLOCK_LIVE;
    binadei_block_record_insert(checked, record);
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
static void checked_alloc_drop(struct binadei_checked *checked,
                               struct binadei_block_record *record)
{
    record->is_unissued = true;
    record->is_looked_at = true;
    binadei_quarantine_add_unissued(checked, record);
}

/* Before others can know the block. */
static binade_status
checked_alloc_keep(struct binadei_call *call,
                   const struct binadei_block_record *record,
                   binade_scope number, struct binadei_scope_block *note)
{
    if (!note)
        return BINADE_OK;
    note->address = record->address;
    note->bytes = record->size_bytes;
    return binadei_scope_keep(call, number, note, NULL)
               ? BINADE_OK
               : binadei_scope_refuse();
}

binade_status binadei_block_record_alloc(struct binadei_call *call,
                                         const struct binadei_alloc_args *args,
                                         binade_scope number,
                                         struct binadei_scope_block *note,
                                         binade_devptr *out)
{
    struct binadei_checked *checked = call->pool->body->checked;
    size_t alignment_bytes = binadei_block_record_alignment(args);
    binade_status status;
    struct binadei_block_record *record =
        checked_alloc_make(checked, args, &status);
    if (!record)
        return status;
    status = checked_alloc_take(call, record, alignment_bytes, args->may_wait);
    if (status != BINADE_OK) {
        free(record);
        return status;
    }
    checked_alloc_place(checked, record, alignment_bytes);
    status = binadei_block_record_bound(checked, record);
    if (status == BINADE_OK)
        status = checked_alloc_keep(call, record, number, note);
    if (status != BINADE_OK) {
        checked_alloc_drop(checked, record);
        return status;
    }
    binadei_call_site_set(checked, &record->allocated, call->stream);
    record->note = call->push->stream_state->note;
    checked_alloc_publish(checked, record);
    *out = record->address;
    return BINADE_OK;
}
