/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that were freed and are held back. Each waits first until its work is
 * over; one that could not be filled at its free is filled then. The oldest of
 * those that are over are looked at and let go of when more are held than the
 * pool may hold, or when memory is short.
 *
 * The thread that takes a block off its queue is alone with it, so no lock is
 * held while it asks the driver.
 */
#include <stdlib.h>

#include "pool/cache/uses.h"
#include "pool/checked/state.h"
#include "pool/driver/section.h"

/* Looks at the blocks of a queue that one free spends. */
#define LOOKS_PER_FREE 16U
#define LOOKS_ENDLESS UINT64_MAX

struct pass {
    struct binadei_call *call;
    struct binadei_checked *checked;
    uint64_t looks; /* left */
    uint64_t want_bytes;
    uint64_t given_bytes;
};

static struct binadei_block_record *
quarantine_pop(struct binadei_checked *checked,
               struct binadei_block_record_queue *queue)
{
    pthread_mutex_lock(&checked->lock);
    struct binadei_block_record *record = queue->first;
    if (record) {
        binadei_queue_remove(queue, record);
        record->state = BINADEI_BLOCK_MOVING;
        checked->moving_count++;
    }
    pthread_mutex_unlock(&checked->lock);
    return record;
}

static void quarantine_append(struct binadei_checked *checked,
                              struct binadei_block_record_queue *queue,
                              struct binadei_block_record *record)
{
    pthread_mutex_lock(&checked->lock);
    record->state = BINADEI_BLOCK_HELD;
    binadei_queue_append(queue, record);
    checked->moving_count--;
    pthread_mutex_unlock(&checked->lock);
}

/* In a section. */
static bool quarantine_is_over(struct binadei_call *call,
                               struct binadei_block_record *record)
{
    return binadei_wait_is_over(call, &record->wait);
}

/* Its memory is another's from now on. */
static void go(struct binadei_checked *checked,
               struct binadei_block_record *record)
{
    pthread_mutex_lock(&checked->lock);
    checked->moving_count--;
    if (record->is_unissued || record->is_replaced)
        free(record);
    else
        binadei_block_record_remember(checked, record);
    pthread_mutex_unlock(&checked->lock);
}

/* False: not now. */
static bool quarantine_look(struct binadei_checked *checked,
                            struct binadei_block_record *record)
{
    struct binadei_section section;
    struct binadei_pool_body *body = checked->body;
    if (record->is_looked_at || !checked->is_checked)
        return true;
    if (binadei_context_enter(&body->own_context, &section) != BINADE_OK)
        return false;
    binadei_block_record_look(checked, record);
    (void)binadei_section_leave(&section);
    record->is_looked_at = true;
    return true;
}

/* A step of one that is filled: it is looked at and goes back. */
static bool let_go(struct pass *pass, struct binadei_block_record *record)
{
    uint64_t bytes = record->base_bytes;
    if (!quarantine_look(pass->checked, record))
        return false;
    pass->given_bytes += bytes;
    if (binadei_backing_give(pass->checked, pass->call, record) == BINADE_OK) {
        go(pass->checked, record);
        return true;
    }
    pass->given_bytes -= bytes;
    return false;
}

/* A step of one that waits: it is filled, if it is not. */
static bool quarantine_fill(struct pass *pass,
                            struct binadei_block_record *record)
{
    struct binadei_checked *checked = pass->checked;
    struct binadei_pool_body *body = checked->body;
    struct binadei_section section;
    if (binadei_context_enter(&body->own_context, &section) != BINADE_OK)
        return false;
    bool is_ready = quarantine_is_over(pass->call, record);
    if (is_ready && checked->is_checked && !record->is_filled)
        record->is_filled =
            binadei_block_record_fill(checked, record, checked->stream);
    if (is_ready)
        quarantine_append(checked, &checked->held, record);
    (void)binadei_section_leave(&section);
    return is_ready;
}

typedef bool step_fn(struct pass *pass, struct binadei_block_record *record);

/* What the step does not want goes to the end, so that the next walk looks at
 * others. */
static void walk(struct pass *pass, struct binadei_block_record_queue *queue,
                 step_fn *step)
{
    struct binadei_block_record *kept = NULL;
    struct binadei_block_record **end = &kept;
    while (pass->looks && pass->given_bytes < pass->want_bytes) {
        struct binadei_block_record *record =
            quarantine_pop(pass->checked, queue);
        if (!record)
            break;
        pass->looks--;
        if (!step(pass, record)) {
            *end = record;
            end = &record->next;
        }
    }
    while (kept) {
        struct binadei_block_record *record = kept;
        kept = record->next;
        quarantine_append(pass->checked, queue, record);
    }
}

static void walk_waiting(struct binadei_call *call, uint64_t looks)
{
    struct pass pass = {call, call->pool->body->checked, looks, UINT64_MAX, 0};
    walk(&pass, &pass.checked->waiting, quarantine_fill);
}

static uint64_t walk_held(struct binadei_call *call, uint64_t looks,
                          uint64_t want_bytes)
{
    struct pass pass = {call, call->pool->body->checked, looks, want_bytes, 0};
    walk(&pass, &pass.checked->held, let_go);
    return pass.given_bytes;
}

uint64_t binadei_quarantine_release(struct binadei_call *call,
                                    uint64_t want_bytes)
{
    walk_waiting(call, LOOKS_ENDLESS);
    return walk_held(call, LOOKS_ENDLESS, want_bytes);
}

static uint64_t excess_bytes(struct binadei_checked *checked)
{
    uint64_t may_bytes =
        checked->is_checked ? checked->body->options.quarantine_bytes : 0;
    pthread_mutex_lock(&checked->lock);
    uint64_t bytes = checked->held.bytes + checked->waiting.bytes;
    pthread_mutex_unlock(&checked->lock);
    return bytes > may_bytes ? bytes - may_bytes : 0;
}

void binadei_quarantine_add(struct binadei_call *call,
                            struct binadei_block_record *record)
{
    struct binadei_checked *checked = call->pool->body->checked;
    quarantine_append(checked, &checked->waiting, record);
    walk_waiting(call, LOOKS_PER_FREE);
    (void)walk_held(call, LOOKS_PER_FREE, excess_bytes(checked));
}

bool binadei_quarantine_is_any(struct binadei_checked *checked)
{
    pthread_mutex_lock(&checked->lock);
    bool is_any =
        checked->held.count + checked->waiting.count + checked->moving_count !=
        0;
    pthread_mutex_unlock(&checked->lock);
    return is_any;
}

/* Those that were freed up to a number and wait for all work. Lock held.
 * Returns whether there are any; if `is_over`, they need not wait any more. */
static bool quarantine_mark(const struct binadei_call *call,
                            const struct binadei_block_record_queue *queue,
                            uint64_t free_count, bool is_over_now)
{
    bool is_any = false;
    for (struct binadei_block_record *at = queue->first; at; at = at->next) {
        if (at->free_sequence > free_count ||
            !binadei_wait_needs_synchronise(call, &at->wait))
            continue;
        is_any = true;
        if (is_over_now)
            at->wait = (struct binadei_wait){0};
    }
    return is_any;
}

void binadei_quarantine_synchronise(struct binadei_call *call)
{
    struct binadei_checked *checked = call->pool->body->checked;
    pthread_mutex_lock(&checked->lock);
    uint64_t free_count = checked->free_count;
    bool is_needed =
        quarantine_mark(call, &checked->waiting, free_count, false);
    pthread_mutex_unlock(&checked->lock);
    if (!is_needed || !binadei_wait_synchronise(call))
        return;
    pthread_mutex_lock(&checked->lock);
    (void)quarantine_mark(call, &checked->waiting, free_count, true);
    pthread_mutex_unlock(&checked->lock);
}

static binade_status quarantine_end(struct binadei_checked *checked,
                                    struct binadei_block_record *record,
                                    bool is_at_rest)
{
    if (is_at_rest && checked->is_checked && !record->is_looked_at)
        binadei_block_record_look(checked, record);
    binade_status status = binadei_backing_give(checked, NULL, record);
    go(checked, record);
    return status;
}

static binade_status end_queue(struct binadei_checked *checked,
                               struct binadei_block_record_queue *queue,
                               bool is_at_rest)
{
    binade_status first = BINADE_OK;
    struct binadei_block_record *record;
    while ((record = quarantine_pop(checked, queue))) {
        binade_status status = quarantine_end(checked, record, is_at_rest);
        if (first == BINADE_OK)
            first = status;
    }
    return first;
}

binade_status binadei_quarantine_end(struct binadei_checked *checked,
                                     bool is_at_rest)
{
    binade_status waiting = end_queue(checked, &checked->waiting, is_at_rest);
    binade_status held = end_queue(checked, &checked->held, is_at_rest);
    binade_status kept = end_queue(checked, &checked->kept, is_at_rest);
    if (waiting != BINADE_OK)
        return waiting;
    return held == BINADE_OK ? kept : held;
}
