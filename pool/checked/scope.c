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

/* Memory that captures freed is held back too, as far as possible. */
static bool checked_scope_is_full(struct moietyi_checked *checked)
{
    uint64_t may_bytes =
        checked->is_checked ? checked->body->options.quarantine_bytes : 0;
    pthread_mutex_lock(&checked->lock);
    bool is_full = checked->kept.bytes > may_bytes;
    pthread_mutex_unlock(&checked->lock);
    return is_full;
}

/* Lock held. */
static void keep_back(struct moietyi_checked *checked,
                      struct moietyi_block_record *record)
{
    record->state = MOIETYI_BLOCK_HELD;
    moietyi_queue_append(&checked->kept, record);
}

/* Lock held. One that nobody else takes: it is in no list of its scope, or its
 * free is under way. */
static void take_back(struct moietyi_checked *checked,
                      struct moietyi_block_record *record)
{
    moietyi_queue_remove(&checked->kept, record);
    record->state = MOIETYI_BLOCK_MOVING;
}

static struct moietyi_block_record *take_kept(struct moietyi_checked *checked,
                                              moiety_devptr address)
{
    pthread_mutex_lock(&checked->lock);
    struct moietyi_block_record *record =
        moietyi_block_record_find(checked, address);
    take_back(checked, record);
    pthread_mutex_unlock(&checked->lock);
    return record;
}

/* A block that the scope gave again begins another life. */
static void revive(struct moietyi_call *call,
                   const struct moietyi_alloc_args *args, moiety_devptr address)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    struct moietyi_block_record *record = take_kept(checked, address);
    struct moietyi_call_site site = {0};
    moietyi_call_site_set(checked, &site, call->stream);
    moietyi_block_record_discharge(call, record);
    pthread_mutex_lock(&checked->lock);
    moietyi_block_record_charge(record, args);
    moietyi_block_record_unset_freed(checked, record);
    record->sequence = ++checked->sequence;
    record->allocated = site;
    record->note = call->push->stream_state->note;
    record->state = MOIETYI_BLOCK_LIVE;
    pthread_mutex_unlock(&checked->lock);
}

/* Of the very size, so that its bounds are right. */
static bool checked_scope_reuse(struct moietyi_call *call, moiety_scope number,
                                const struct moietyi_alloc_args *args,
                                moiety_devptr *out)
{
    const struct moietyi_scope_want want = {
        .bytes = args->size_bytes,
        .most_bytes = args->size_bytes,
        .alignment_bytes = moietyi_block_record_alignment(args),
    };
    moiety_devptr address = moietyi_scope_reuse(call, number, &want);
    if (!address)
        return false;
    revive(call, args, address);
    *out = address;
    return true;
}

static moiety_status checked_scope_take(struct moietyi_call *call,
                                        moiety_scope number,
                                        const struct moietyi_alloc_args *args,
                                        moiety_devptr *out)
{
    struct moietyi_scope_block *note = calloc(1, sizeof(*note));
    if (!note)
        return moietyi_scope_no_memory();
    moiety_status status =
        moietyi_block_record_alloc(call, args, number, note, out);
    if (status != MOIETY_OK)
        free(note);
    return status;
}

/* Another block rather than one that was freed, as long as there are some. */
static moiety_status take_or_reuse(struct moietyi_call *call,
                                   moiety_scope number,
                                   const struct moietyi_alloc_args *args,
                                   moiety_devptr *out)
{
    struct moietyi_alloc_args at_once = *args;
    at_once.may_wait = false;
    if (!checked_scope_is_full(call->pool->body->checked) &&
        checked_scope_take(call, number, &at_once, out) == MOIETY_OK)
        return MOIETY_OK;
    return checked_scope_reuse(call, number, args, out)
               ? MOIETY_OK
               : checked_scope_take(call, number, args, out);
}

/* The caller has the block. */
static void set_arena_ref(struct moietyi_checked *checked,
                          moiety_devptr address,
                          const struct moietyi_private_ref *arena_ref)
{
    pthread_mutex_lock(&checked->lock);
    struct moietyi_block_record *record =
        moietyi_block_record_find(checked, address);
    if (record)
        record->arena_ref = *arena_ref;
    pthread_mutex_unlock(&checked->lock);
}

moiety_status
moietyi_block_record_alloc_for(struct moietyi_call *call, moiety_scope number,
                               const struct moietyi_private_ref *arena_ref,
                               const struct moietyi_alloc_args *args,
                               moiety_devptr *out)
{
    moiety_status status =
        arena_ref->arena ? moietyi_private_charge(arena_ref, args->size_bytes)
                         : MOIETY_OK;
    if (status != MOIETY_OK)
        return status;
    status = number ? take_or_reuse(call, number, args, out)
                    : moietyi_block_record_alloc(call, args, 0, NULL, out);
    if (arena_ref->arena && status == MOIETY_OK)
        set_arena_ref(call->pool->body->checked, *out, arena_ref);
    else if (arena_ref->arena)
        moietyi_private_discharge(arena_ref, args->size_bytes);
    return status;
}

moiety_status
moietyi_block_record_alloc_captured(struct moietyi_call *call,
                                    const struct moietyi_alloc_args *args,
                                    moiety_devptr *out)
{
    moiety_scope number;
    moiety_status status = moietyi_scope_require(call, &number);
    if (status != MOIETY_OK)
        return status;
    const struct moietyi_private_ref arena_ref =
        moietyi_private_of_scope(call, number);
    return moietyi_block_record_alloc_for(call, number, &arena_ref, args, out);
}

/* The block is kept before the scope is asked: from then on another thread may
 * get it again, or release it. */
moiety_status moietyi_block_record_keep(struct moietyi_call *call,
                                        struct moietyi_block_record *record,
                                        const struct moietyi_call_site *site,
                                        bool *out_is_kept)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    *out_is_kept = false;
    if (!call->is_capturing &&
        !moietyi_scopes_keep_any(call->pool->body->scopes))
        return MOIETY_OK;
    pthread_mutex_lock(&checked->lock);
    moietyi_block_record_set_freed(checked, record, site);
    keep_back(checked, record);
    pthread_mutex_unlock(&checked->lock);
    moiety_status status =
        moietyi_scopes_free(call, NULL, record->address, out_is_kept);
    if (*out_is_kept)
        return MOIETY_OK;
    pthread_mutex_lock(&checked->lock);
    take_back(checked, record);
    moietyi_block_record_unset_freed(checked, record);
    pthread_mutex_unlock(&checked->lock);
    return status;
}

moiety_status moietyi_checked_release(struct moietyi_call *call,
                                      moiety_devptr address)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    struct moietyi_block_record *record = take_kept(checked, address);
    moiety_status status = moietyi_block_record_set_pending(call, record, NULL);
    pthread_mutex_lock(&checked->lock);
    if (status == MOIETY_OK)
        moietyi_block_record_count_free(checked, record);
    else
        keep_back(checked, record);
    pthread_mutex_unlock(&checked->lock);
    if (status != MOIETY_OK)
        return status;
    moietyi_block_record_discharge(call, record);
    moietyi_quarantine_add(call, record);
    return MOIETY_OK;
}
