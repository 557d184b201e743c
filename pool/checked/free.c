/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Frees in a checked pool, and what else takes a block's address. A block is
 * marked as moving under the lock before anything is done with it, so of two
 * threads that free it one is told.
 */
#include "pool/base/failure.h"
#include "pool/cache/uses.h"
#include "pool/checked/state.h"
#include "pool/graph/scopes.h"

/* A mistake that is a status too: counted, printed, and the message. `shown`
 * is a copy. */
static moiety_status
checked_free_refuse(struct moietyi_checked *checked, uint64_t *counter,
                    moiety_status status, const struct moietyi_text *text,
                    const struct moietyi_block_record *shown)
{
    pthread_mutex_lock(&checked->lock);
    (*counter)++;
    pthread_mutex_unlock(&checked->lock);
    moietyi_finding(checked, text, shown);
    return moietyi_fail(status, "%s", text->bytes);
}

static void checked_free_add_place(struct moietyi_text *text,
                                   const struct moietyi_block_record *record,
                                   moiety_devptr address)
{
    if (address < record->address)
        moietyi_text_add(text, "%llu bytes before a block",
                         record->address - address);
    else if (address - record->address >= record->size_bytes)
        moietyi_text_add(text, "%llu bytes past the end of a block",
                         address - record->address - record->size_bytes);
    else
        moietyi_text_add(text, "inside a block, at offset %llu",
                         address - record->address);
    if (record->is_freed)
        moietyi_text_add(text, " that was freed");
}

/* No block was given out there. */
static moiety_status refuse_stranger(struct moietyi_checked *checked,
                                     moiety_devptr address)
{
    struct moietyi_text text = {0};
    const void *owner = moietyi_checked_owner(checked, address);
    moietyi_grain start;
    bool is_own =
        !checked->is_passing &&
        moietyi_grain_of(checked->body->engine->lookup, address, &start);
    moietyi_text_add(&text, "0x%llx ", address);
    if (owner)
        moietyi_text_add(&text, "is of another pool, %p", owner);
    else if (is_own)
        moietyi_text_add(&text, "was never given out");
    else
        moietyi_text_add(&text, "is not of this pool");
    return checked_free_refuse(checked, &checked->counts.foreign_frees,
                               is_own ? MOIETY_E_INVALID : MOIETY_E_FOREIGN,
                               &text, NULL);
}

/* The address is no live block's: says what it is instead. `freed`: the status if
 * it is that of a block that was freed. */
static moiety_status refuse_address(struct moietyi_checked *checked,
                                    moiety_devptr address, moiety_status freed)
{
    struct moietyi_text text = {0};
    struct moietyi_block_record shown = {0};
    pthread_mutex_lock(&checked->lock);
    const struct moietyi_block_record *record =
        moietyi_block_record_find(checked, address);
    bool is_start = record != NULL;
    if (!record)
        record = moietyi_block_record_around(checked, address);
    bool is_known = record != NULL;
    if (is_known)
        moietyi_block_record_show(record, &shown);
    pthread_mutex_unlock(&checked->lock);
    if (!is_known)
        return refuse_stranger(checked, address);
    moietyi_text_add(&text, "0x%llx ", address);
    if (is_start) {
        moietyi_text_add(&text, "was freed before");
    } else {
        moietyi_text_add(&text, "is ");
        checked_free_add_place(&text, &shown, address);
    }
    moietyi_text_block(&text, &shown);
    return checked_free_refuse(checked,
                               is_start ? &checked->counts.double_frees
                                        : &checked->counts.interior_frees,
                               is_start ? freed : MOIETY_E_INVALID, &text,
                               &shown);
}

static moiety_status
checked_free_refuse_size(struct moietyi_checked *checked,
                         const struct moietyi_block_record *shown,
                         size_t size_bytes)
{
    struct moietyi_text text = {0};
    moietyi_text_add(&text, "0x%llx was freed with size %zu", shown->address,
                     size_bytes);
    moietyi_text_block(&text, shown);
    return checked_free_refuse(checked, &checked->counts.wrong_sizes,
                               MOIETY_E_INVALID, &text, shown);
}

/* Takes a live block for this thread alone. */
static moiety_status begin_move(struct moietyi_checked *checked,
                                moiety_devptr address, size_t size_bytes,
                                struct moietyi_block_record **out)
{
    struct moietyi_block_record shown = {0};
    pthread_mutex_lock(&checked->lock);
    struct moietyi_block_record *record =
        moietyi_block_record_find(checked, address);
    bool is_live = record && record->state == MOIETYI_BLOCK_LIVE;
    bool is_right =
        is_live && (!size_bytes || size_bytes == record->size_bytes);
    if (is_right)
        record->state = MOIETYI_BLOCK_MOVING;
    else if (is_live)
        moietyi_block_record_show(record, &shown);
    pthread_mutex_unlock(&checked->lock);
    *out = record;
    if (is_right)
        return MOIETY_OK;
    return is_live ? checked_free_refuse_size(checked, &shown, size_bytes)
                   : refuse_address(checked, address, MOIETY_E_DOUBLE_FREE);
}

static void end_move(struct moietyi_checked *checked,
                     struct moietyi_block_record *record, bool is_freed,
                     const struct moietyi_call_site *site)
{
    pthread_mutex_lock(&checked->lock);
    if (is_freed) {
        moietyi_block_record_set_freed(checked, record, site);
        moietyi_block_record_count_free(checked, record);
    } else {
        record->state = MOIETYI_BLOCK_LIVE;
    }
    pthread_mutex_unlock(&checked->lock);
}

moiety_status moietyi_checked_free(struct moietyi_call *call,
                                   moiety_devptr address, size_t size_bytes,
                                   CUevent event)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    struct moietyi_block_record *record;
    struct moietyi_call_site site = {0};
    moiety_status status = moietyi_checked_stranger(call);
    if (status == MOIETY_OK)
        status = begin_move(checked, address, size_bytes, &record);
    if (status != MOIETY_OK)
        return status;
    moietyi_call_site_set(checked, &site, call->stream);
    bool is_kept = false;
    status = event
                 ? moietyi_scopes_check_after(call->pool->body->scopes, address)
                 : moietyi_block_record_keep(call, record, &site, &is_kept);
    if (is_kept)
        return MOIETY_OK;
    if (status == MOIETY_OK)
        status = moietyi_block_record_set_pending(call, record, event);
    end_move(checked, record, status == MOIETY_OK, &site);
    if (status == MOIETY_OK) {
        moietyi_block_record_discharge(call, record);
        moietyi_quarantine_add(call, record);
    }
    return status;
}

/* The note of a live block; 0: none is there. */
static uint32_t note_of(struct moietyi_checked *checked, moiety_devptr address)
{
    pthread_mutex_lock(&checked->lock);
    const struct moietyi_block_record *record =
        moietyi_block_record_find(checked, address);
    bool is_live = record && record->state == MOIETYI_BLOCK_LIVE;
    uint32_t note = is_live ? record->note : 0;
    pthread_mutex_unlock(&checked->lock);
    return note;
}

moiety_status moietyi_checked_turn(struct moietyi_call *call,
                                   moiety_devptr address)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    uint32_t note = note_of(checked, address);
    moiety_status status = MOIETY_OK;
    if (note)
        status = moietyi_call_turn(call, note);
    if (note && status == MOIETY_OK)
        status = moietyi_checked_stream(checked, call->stream);
    return note && status == MOIETY_OK ? moietyi_call_look(call) : status;
}

/* Whether it is a live block; if so, and `is_shared`, others use it from now
 * on. */
static bool note_live(struct moietyi_checked *checked, moiety_devptr address,
                      bool is_shared, size_t *out_bytes)
{
    pthread_mutex_lock(&checked->lock);
    struct moietyi_block_record *record =
        moietyi_block_record_find(checked, address);
    bool is_live = record && record->state == MOIETYI_BLOCK_LIVE;
    if (is_live) {
        record->is_shared |= is_shared;
        *out_bytes = record->size_bytes;
    }
    pthread_mutex_unlock(&checked->lock);
    return is_live;
}

moiety_status moietyi_checked_use(struct moietyi_call *call,
                                  moiety_devptr address, moiety_stream stream)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    size_t size_bytes;
    moiety_status status = moietyi_checked_stream(checked, stream);
    if (status != MOIETY_OK)
        return status;
    if (!note_live(checked, address, true, &size_bytes))
        return refuse_address(checked, address, MOIETY_E_INVALID);
    if (!moietyi_is_lost(call->pool))
        status = moietyi_use(call, NULL, address, stream);
    return moietyi_is_lost(call->pool) ? MOIETY_OK : status;
}

moiety_status moietyi_checked_size(struct moietyi_call *call,
                                   moiety_devptr address, size_t *out)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    return note_live(checked, address, false, out)
               ? MOIETY_OK
               : refuse_address(checked, address, MOIETY_E_INVALID);
}

size_t moietyi_checked_live_bytes(struct moietyi_call *call,
                                  moiety_devptr address)
{
    size_t size_bytes = 0;
    return note_live(call->pool->body->checked, address, false, &size_bytes)
               ? size_bytes
               : 0;
}
