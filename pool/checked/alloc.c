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
#include "pool/oom/ladder.h"
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
                               struct binadei_watch *watch,
                               size_t alignment_bytes, bool may_wait,
                               binade_status status)
{
    struct binadei_checked *checked = call->pool->body->checked;
    uint64_t wait_ns = checked->body->options.wait_ms * UINT64_C(1000000);
    uint64_t end_ns = binadei_now_ns() + wait_ns;
    long nap_ns = NAP_NS;
    while (checked_alloc_is_short(status)) {
        if (may_wait)
            binadei_shelf_synchronise(call);
        if (!binadei_shelf_release(call, watch->base_bytes)) {
            if (!may_wait || !binadei_shelf_is_any(checked) ||
                binadei_now_ns() >= end_ns)
                break;
            binadei_call_nap(call, &nap_ns, NAP_MOST_NS);
        }
        status = binadei_backing_take(call, watch, alignment_bytes);
    }
    return status;
}

/* The ladder, with its callbacks, its last look and its report. */
static binade_status checked_alloc_climb(struct binadei_call *call,
                                         struct binadei_watch *watch,
                                         size_t alignment_bytes)
{
    const struct binadei_request request = {
        binadei_size_of_bytes(watch->base_bytes), watch->base_bytes,
        alignment_bytes > BINADEI_GRAIN_BYTES
            ? (uint32_t)(alignment_bytes / BINADEI_GRAIN_BYTES)
            : 1,
        false};
    return binadei_climb(call, &request, true, &watch->base);
}

static binade_status checked_alloc_take(struct binadei_call *call,
                                        struct binadei_watch *watch,
                                        size_t alignment_bytes, bool may_wait)
{
    struct binadei_checked *checked = call->pool->body->checked;
    binade_status status = binadei_backing_take(call, watch, alignment_bytes);
    if (!checked_alloc_is_short(status))
        return status;
    status = take_held(call, watch, alignment_bytes, may_wait, status);
    if (!checked_alloc_is_short(status))
        return status;
    if (!may_wait)
        return binadei_fail(BINADE_E_BUSY,
                            "%llu bytes: nothing is free without waiting",
                            (unsigned long long)watch->size_bytes);
    return checked->is_passing
               ? status
               : checked_alloc_climb(call, watch, alignment_bytes);
}

/* What a block's address must be a multiple of. */
size_t binadei_watch_alignment(const struct binadei_wish *wish)
{
    if (wish->size_bytes > BINADEI_PAGE_BYTES / 2)
        return BINADEI_PAGE_BYTES;
    return wish->alignment_bytes > BINADEI_GRAIN_BYTES ? wish->alignment_bytes
                                                       : BINADEI_GRAIN_BYTES;
}

void binadei_watch_charge(struct binadei_watch *watch,
                          const struct binadei_wish *wish)
{
    watch->tenant = wish->tenant;
    memset(watch->tenant_name, 0, sizeof(watch->tenant_name));
    if (wish->tenant)
        memcpy(watch->tenant_name, wish->tenant->name,
               sizeof(watch->tenant_name));
}

/* A record, and what it will be of. NULL, and why. */
static struct binadei_watch *
checked_alloc_make(const struct binadei_checked *checked,
                   const struct binadei_wish *wish, binade_status *out_status)
{
    uint64_t limit_bytes = checked->body->limit_bytes;
    uint64_t bytes = wish->size_bytes;
    if (checked->is_checked)
        bytes += binadei_watch_alignment(wish) + BINADEI_BOUND_BYTES;
    if (bytes > limit_bytes) {
        *out_status = binadei_fail(
            BINADE_E_TOO_LARGE,
            "%zu bytes and their bounds: the pool never reserves more than "
            "%llu",
            wish->size_bytes, (unsigned long long)limit_bytes);
        return NULL;
    }
    struct binadei_watch *watch = calloc(1, sizeof(*watch));
    if (!watch) {
        *out_status = binadei_fail(BINADE_E_NO_HOST_MEMORY,
                                   "no memory to note a block in");
        return NULL;
    }
    watch->size_bytes = wish->size_bytes;
    watch->base_bytes = bytes;
    binadei_watch_charge(watch, wish);
    return watch;
}

/* The address, after what is before it. */
static void checked_alloc_place(const struct binadei_checked *checked,
                                struct binadei_watch *watch,
                                size_t alignment_bytes)
{
    watch->address =
        (watch->base + (checked->is_checked ? BINADEI_BOUND_BYTES : 0) +
         alignment_bytes - 1) &
        ~(binade_devptr)(alignment_bytes - 1);
}

static void checked_alloc_publish(struct binadei_checked *checked,
                                  struct binadei_watch *watch)
{
    pthread_mutex_lock(&checked->lock);
    watch->sequence = ++checked->sequence;
    watch->state = BINADEI_WATCH_LIVE;
    binadei_watch_insert(checked, watch);
    checked->counts.live_blocks++;
    checked->counts.live_bytes += watch->size_bytes;
    checked->alloc_count++;
    checked->alloc_bytes += watch->size_bytes;
    pthread_mutex_unlock(&checked->lock);
}

/* A block that nobody got: it is like one that was freed with nothing pending,
 * but nothing is to be seen in it. */
static void checked_alloc_drop(struct binadei_checked *checked,
                               struct binadei_watch *watch)
{
    watch->is_stray = true;
    watch->is_looked_at = true;
    binadei_shelf_add_stray(checked, watch);
}

/* Before others can know the block. */
static binade_status checked_alloc_keep(struct binadei_call *call,
                                        const struct binadei_watch *watch,
                                        binade_scope number,
                                        struct binadei_scope_block *note)
{
    if (!note)
        return BINADE_OK;
    note->address = watch->address;
    note->bytes = watch->size_bytes;
    return binadei_scope_keep(call, number, note, NULL)
               ? BINADE_OK
               : binadei_scope_refuse();
}

binade_status binadei_watch_alloc(struct binadei_call *call,
                                  const struct binadei_wish *wish,
                                  binade_scope number,
                                  struct binadei_scope_block *note,
                                  binade_devptr *out)
{
    struct binadei_checked *checked = call->pool->body->checked;
    size_t alignment_bytes = binadei_watch_alignment(wish);
    binade_status status;
    struct binadei_watch *watch = checked_alloc_make(checked, wish, &status);
    if (!watch)
        return status;
    status = checked_alloc_take(call, watch, alignment_bytes, wish->may_wait);
    if (status != BINADE_OK) {
        free(watch);
        return status;
    }
    checked_alloc_place(checked, watch, alignment_bytes);
    status = binadei_watch_bound(checked, watch);
    if (status == BINADE_OK)
        status = checked_alloc_keep(call, watch, number, note);
    if (status != BINADE_OK) {
        checked_alloc_drop(checked, watch);
        return status;
    }
    binadei_site_set(checked, &watch->allocated, call->stream);
    watch->note = call->push->slot->note;
    checked_alloc_publish(checked, watch);
    *out = watch->address;
    return BINADE_OK;
}
