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
static binade_status
checked_free_refuse(struct binadei_checked *checked, uint64_t *counter,
                    binade_status status, const struct binadei_text *text,
                    const struct binadei_block_record *shown)
{
    pthread_mutex_lock(&checked->lock);
    (*counter)++;
    pthread_mutex_unlock(&checked->lock);
    binadei_finding(checked, text, shown);
    return binadei_fail(status, "%s", text->bytes);
}

static void checked_free_add_place(struct binadei_text *text,
                                   const struct binadei_block_record *record,
                                   binade_devptr address)
{
    if (address < record->address)
        binadei_text_add(text, "%llu bytes before a block",
                         record->address - address);
    else if (address - record->address >= record->size_bytes)
        binadei_text_add(text, "%llu bytes past the end of a block",
                         address - record->address - record->size_bytes);
    else
        binadei_text_add(text, "inside a block, at offset %llu",
                         address - record->address);
    if (record->is_freed)
        binadei_text_add(text, " that was freed");
}

/* No block was given out there. */
static binade_status refuse_stranger(struct binadei_checked *checked,
                                     binade_devptr address)
{
    struct binadei_text text = {0};
    const void *owner = binadei_checked_owner(checked, address);
    binadei_grain start;
    bool is_own =
        !checked->is_passing &&
        binadei_grain_of(checked->body->engine->lookup, address, &start);
    binadei_text_add(&text, "0x%llx ", address);
    if (owner)
        binadei_text_add(&text, "is of another pool, %p", owner);
    else if (is_own)
        binadei_text_add(&text, "was never given out");
    else
        binadei_text_add(&text, "is not of this pool");
    return checked_free_refuse(checked, &checked->counts.foreign_frees,
                               is_own ? BINADE_E_INVALID : BINADE_E_FOREIGN,
                               &text, NULL);
}

/* The address is no live block's: says what it is instead. */
static binade_status refuse_address(struct binadei_checked *checked,
                                    binade_devptr address)
{
    struct binadei_text text = {0};
    struct binadei_block_record shown = {0};
    pthread_mutex_lock(&checked->lock);
    const struct binadei_block_record *record =
        binadei_block_record_find(checked, address);
    bool is_start = record != NULL;
    if (!record)
        record = binadei_block_record_around(checked, address);
    bool is_known = record != NULL;
    if (is_known)
        binadei_block_record_show(record, &shown);
    pthread_mutex_unlock(&checked->lock);
    if (!is_known)
        return refuse_stranger(checked, address);
    binadei_text_add(&text, "0x%llx ", address);
    if (is_start) {
        binadei_text_add(&text, "was freed before");
    } else {
        binadei_text_add(&text, "is ");
        checked_free_add_place(&text, &shown, address);
    }
    binadei_text_block(&text, &shown);
    return checked_free_refuse(checked,
                               is_start ? &checked->counts.double_frees
                                        : &checked->counts.interior_frees,
                               BINADE_E_INVALID, &text, &shown);
}

static binade_status
checked_free_refuse_size(struct binadei_checked *checked,
                         const struct binadei_block_record *shown,
                         size_t size_bytes)
{
    struct binadei_text text = {0};
    binadei_text_add(&text, "0x%llx was freed with size %zu", shown->address,
                     size_bytes);
    binadei_text_block(&text, shown);
    return checked_free_refuse(checked, &checked->counts.wrong_sizes,
                               BINADE_E_INVALID, &text, shown);
}

/* Takes a live block for this thread alone. */
static binade_status begin_move(struct binadei_checked *checked,
                                binade_devptr address, size_t size_bytes,
                                struct binadei_block_record **out)
{
    struct binadei_block_record shown = {0};
    pthread_mutex_lock(&checked->lock);
    struct binadei_block_record *record =
        binadei_block_record_find(checked, address);
    bool is_live = record && record->state == BINADEI_BLOCK_LIVE;
    bool is_right =
        is_live && (!size_bytes || size_bytes == record->size_bytes);
    if (is_right)
        record->state = BINADEI_BLOCK_MOVING;
    else if (is_live)
        binadei_block_record_show(record, &shown);
    pthread_mutex_unlock(&checked->lock);
    *out = record;
    if (is_right)
        return BINADE_OK;
    return is_live ? checked_free_refuse_size(checked, &shown, size_bytes)
                   : refuse_address(checked, address);
}

static void end_move(struct binadei_checked *checked,
                     struct binadei_block_record *record, bool is_freed,
                     const struct binadei_call_site *site)
{
    pthread_mutex_lock(&checked->lock);
    if (is_freed) {
        binadei_block_record_set_freed(checked, record, site);
        binadei_block_record_count_free(checked, record);
    } else {
        record->state = BINADEI_BLOCK_LIVE;
    }
    pthread_mutex_unlock(&checked->lock);
}

binade_status binadei_checked_free(struct binadei_call *call,
                                   binade_devptr address, size_t size_bytes,
                                   CUevent event)
{
    struct binadei_checked *checked = call->pool->body->checked;
    struct binadei_block_record *record;
    struct binadei_call_site site = {0};
    binade_status status = binadei_checked_stranger(call);
    if (status == BINADE_OK)
        status = begin_move(checked, address, size_bytes, &record);
    if (status != BINADE_OK)
        return status;
    binadei_call_site_set(checked, &site, call->stream);
    bool is_kept = false;
    status = event
                 ? binadei_scopes_check_after(call->pool->body->scopes, address)
                 : binadei_block_record_keep(call, record, &site, &is_kept);
    if (is_kept)
        return BINADE_OK;
    if (status == BINADE_OK)
        status = binadei_block_record_set_pending(call, record, event);
    end_move(checked, record, status == BINADE_OK, &site);
    if (status == BINADE_OK) {
        binadei_block_record_discharge(call, record);
        binadei_quarantine_add(call, record);
    }
    return status;
}

/* The note of a live block; 0: none is there. */
static uint32_t note_of(struct binadei_checked *checked, binade_devptr address)
{
    pthread_mutex_lock(&checked->lock);
    const struct binadei_block_record *record =
        binadei_block_record_find(checked, address);
    bool is_live = record && record->state == BINADEI_BLOCK_LIVE;
    uint32_t note = is_live ? record->note : 0;
    pthread_mutex_unlock(&checked->lock);
    return note;
}

binade_status binadei_checked_turn(struct binadei_call *call,
                                   binade_devptr address)
{
    struct binadei_checked *checked = call->pool->body->checked;
    uint32_t note = note_of(checked, address);
    binade_status status = BINADE_OK;
    if (note)
        status = binadei_call_turn(call, note);
    if (note && status == BINADE_OK)
        status = binadei_checked_stream(checked, call->stream);
    return note && status == BINADE_OK ? binadei_call_look(call) : status;
}

/* Whether it is a live block; if so, and `is_shared`, others use it from now
 * on. */
static bool note_live(struct binadei_checked *checked, binade_devptr address,
                      bool is_shared, size_t *out_bytes)
{
    pthread_mutex_lock(&checked->lock);
    struct binadei_block_record *record =
        binadei_block_record_find(checked, address);
    bool is_live = record && record->state == BINADEI_BLOCK_LIVE;
    if (is_live) {
        record->is_shared |= is_shared;
        *out_bytes = record->size_bytes;
    }
    pthread_mutex_unlock(&checked->lock);
    return is_live;
}

binade_status binadei_checked_use(struct binadei_call *call,
                                  binade_devptr address, binade_stream stream)
{
    struct binadei_checked *checked = call->pool->body->checked;
    size_t size_bytes;
    binade_status status = binadei_checked_stream(checked, stream);
    if (status != BINADE_OK)
        return status;
    if (!note_live(checked, address, true, &size_bytes))
        return refuse_address(checked, address);
    if (!binadei_is_lost(call->pool))
        status = binadei_wait_note(call, address, stream);
    return binadei_is_lost(call->pool) ? BINADE_OK : status;
}

binade_status binadei_checked_size(struct binadei_call *call,
                                   binade_devptr address, size_t *out)
{
    struct binadei_checked *checked = call->pool->body->checked;
    return note_live(checked, address, false, out)
               ? BINADE_OK
               : refuse_address(checked, address);
}

size_t binadei_checked_live_bytes(struct binadei_call *call,
                                  binade_devptr address)
{
    size_t size_bytes = 0;
    return note_live(call->pool->body->checked, address, false, &size_bytes)
               ? size_bytes
               : 0;
}
