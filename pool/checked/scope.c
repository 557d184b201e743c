/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Capture scopes in a checked pool. Which blocks scopes keep, and which of them
 * serve again, is for pool/graph/scope_blocks.c; here is what becomes of the
 * record. What a scope keeps gets no pattern before its release: a graph may
 * write it whenever it runs, rightly. A block that serves again in its capture
 * does so with the very bounds that it has, which nodes from before may rely
 * on.
 */
#include <stdlib.h>

#include "pool/checked/state.h"

/* What captures freed is held back too, as far as that goes. */
static bool checked_scope_is_full(struct binadei_checked *checked)
{
    uint64_t may_bytes =
        checked->is_checked ? checked->body->options.quarantine_bytes : 0;
    pthread_mutex_lock(&checked->lock);
    bool is_full = checked->kept.bytes > may_bytes;
    pthread_mutex_unlock(&checked->lock);
    return is_full;
}

/* Lock held. */
static void keep_back(struct binadei_checked *checked,
                      struct binadei_block_record *record)
{
    record->state = BINADEI_BLOCK_HELD;
    binadei_queue_append(&checked->kept, record);
}

/* Lock held. One that nobody else takes: it is in no list of its scope, or its
 * free is under way. */
static void take_back(struct binadei_checked *checked,
                      struct binadei_block_record *record)
{
    binadei_queue_remove(&checked->kept, record);
    record->state = BINADEI_BLOCK_MOVING;
}

static struct binadei_block_record *take_kept(struct binadei_checked *checked,
                                              binade_devptr address)
{
    pthread_mutex_lock(&checked->lock);
    struct binadei_block_record *record =
        binadei_block_record_find(checked, address);
    take_back(checked, record);
    pthread_mutex_unlock(&checked->lock);
    return record;
}

/* A block that the scope gave again begins another life. */
static void revive(struct binadei_call *call,
                   const struct binadei_alloc_args *args, binade_devptr address)
{
    struct binadei_checked *checked = call->pool->body->checked;
    struct binadei_block_record *record = take_kept(checked, address);
    struct binadei_call_site site = {0};
    binadei_call_site_set(checked, &site, call->stream);
    binadei_block_record_discharge(call, record);
    pthread_mutex_lock(&checked->lock);
    binadei_block_record_charge(record, args);
    binadei_block_record_unset_freed(checked, record);
    record->sequence = ++checked->sequence;
    record->allocated = site;
    record->note = call->push->stream_state->note;
    record->state = BINADEI_BLOCK_LIVE;
    pthread_mutex_unlock(&checked->lock);
}

/* Of the very size, so that its bounds are right. */
static bool checked_scope_reuse(struct binadei_call *call, binade_scope number,
                                const struct binadei_alloc_args *args,
                                binade_devptr *out)
{
    const struct binadei_scope_want want = {
        .bytes = args->size_bytes,
        .most_bytes = args->size_bytes,
        .alignment_bytes = binadei_block_record_alignment(args),
    };
    binade_devptr address = binadei_scope_reuse(call, number, &want);
    if (!address)
        return false;
    revive(call, args, address);
    *out = address;
    return true;
}

static binade_status checked_scope_take(struct binadei_call *call,
                                        binade_scope number,
                                        const struct binadei_alloc_args *args,
                                        binade_devptr *out)
{
    struct binadei_scope_block *note = calloc(1, sizeof(*note));
    if (!note)
        return binadei_scope_no_memory();
    binade_status status =
        binadei_block_record_alloc(call, args, number, note, out);
    if (status != BINADE_OK)
        free(note);
    return status;
}

/* Another block rather than one that was freed, as long as there are some. */
static binade_status take_or_reuse(struct binadei_call *call,
                                   binade_scope number,
                                   const struct binadei_alloc_args *args,
                                   binade_devptr *out)
{
    struct binadei_alloc_args at_once = *args;
    at_once.may_wait = false;
    if (!checked_scope_is_full(call->pool->body->checked) &&
        checked_scope_take(call, number, &at_once, out) == BINADE_OK)
        return BINADE_OK;
    return checked_scope_reuse(call, number, args, out)
               ? BINADE_OK
               : checked_scope_take(call, number, args, out);
}

/* The caller has the block. */
static void set_arena_ref(struct binadei_checked *checked,
                          binade_devptr address,
                          const struct binadei_private_ref *arena_ref)
{
    pthread_mutex_lock(&checked->lock);
    struct binadei_block_record *record =
        binadei_block_record_find(checked, address);
    if (record)
        record->arena_ref = *arena_ref;
    pthread_mutex_unlock(&checked->lock);
}

binade_status
binadei_block_record_alloc_for(struct binadei_call *call, binade_scope number,
                               const struct binadei_private_ref *arena_ref,
                               const struct binadei_alloc_args *args,
                               binade_devptr *out)
{
    binade_status status =
        arena_ref->arena ? binadei_private_charge(arena_ref, args->size_bytes)
                         : BINADE_OK;
    if (status != BINADE_OK)
        return status;
    status = number ? take_or_reuse(call, number, args, out)
                    : binadei_block_record_alloc(call, args, 0, NULL, out);
    if (arena_ref->arena && status == BINADE_OK)
        set_arena_ref(call->pool->body->checked, *out, arena_ref);
    else if (arena_ref->arena)
        binadei_private_discharge(arena_ref, args->size_bytes);
    return status;
}

binade_status
binadei_block_record_alloc_captured(struct binadei_call *call,
                                    const struct binadei_alloc_args *args,
                                    binade_devptr *out)
{
    binade_scope number;
    binade_status status = binadei_scope_require(call, &number);
    if (status != BINADE_OK)
        return status;
    const struct binadei_private_ref arena_ref =
        binadei_private_of_scope(call, number);
    return binadei_block_record_alloc_for(call, number, &arena_ref, args, out);
}

/* The block is kept before the scope is asked: from then on another thread may
 * get it again, or release it. */
binade_status binadei_block_record_keep(struct binadei_call *call,
                                        struct binadei_block_record *record,
                                        const struct binadei_call_site *site,
                                        bool *out_is_kept)
{
    struct binadei_checked *checked = call->pool->body->checked;
    *out_is_kept = false;
    if (!call->is_capturing &&
        !binadei_scopes_keep_any(call->pool->body->scopes))
        return BINADE_OK;
    pthread_mutex_lock(&checked->lock);
    binadei_block_record_set_freed(checked, record, site);
    keep_back(checked, record);
    pthread_mutex_unlock(&checked->lock);
    binade_status status =
        binadei_scopes_free(call, NULL, record->address, out_is_kept);
    if (*out_is_kept)
        return BINADE_OK;
    pthread_mutex_lock(&checked->lock);
    take_back(checked, record);
    binadei_block_record_unset_freed(checked, record);
    pthread_mutex_unlock(&checked->lock);
    return status;
}

binade_status binadei_checked_release(struct binadei_call *call,
                                      binade_devptr address)
{
    struct binadei_checked *checked = call->pool->body->checked;
    struct binadei_block_record *record = take_kept(checked, address);
    binade_status status = binadei_block_record_set_pending(call, record, NULL);
    pthread_mutex_lock(&checked->lock);
    if (status == BINADE_OK)
        binadei_block_record_count_free(checked, record);
    else
        keep_back(checked, record);
    pthread_mutex_unlock(&checked->lock);
    if (status != BINADE_OK)
        return status;
    binadei_block_record_discharge(call, record);
    binadei_quarantine_add(call, record);
    return BINADE_OK;
}
