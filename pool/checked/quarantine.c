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
    struct moietyi_call *call;
    struct moietyi_checked *checked;
    uint64_t looks; /* left */
    uint64_t want_bytes;
    uint64_t given_bytes;
};

static struct moietyi_block_record *
quarantine_pop(struct moietyi_checked *checked,
               struct moietyi_block_record_queue *queue)
{
    pthread_mutex_lock(&checked->lock);
    struct moietyi_block_record *record = queue->first;
    if (record) {
        moietyi_queue_remove(queue, record);
        record->state = MOIETYI_BLOCK_MOVING;
        checked->moving_count++;
    }
    pthread_mutex_unlock(&checked->lock);
    return record;
}

static void quarantine_append(struct moietyi_checked *checked,
                              struct moietyi_block_record_queue *queue,
                              struct moietyi_block_record *record)
{
    pthread_mutex_lock(&checked->lock);
    record->state = MOIETYI_BLOCK_HELD;
    moietyi_queue_append(queue, record);
    checked->moving_count--;
    pthread_mutex_unlock(&checked->lock);
}

/* In a section. */
static bool quarantine_is_over(struct moietyi_call *call,
                               struct moietyi_block_record *record)
{
    return moietyi_wait_is_over(call, &record->wait);
}

/* Its memory is another's from now on. */
static void go(struct moietyi_checked *checked,
               struct moietyi_block_record *record)
{
    pthread_mutex_lock(&checked->lock);
    checked->moving_count--;
    if (record->is_unissued || record->is_replaced)
        free(record);
    else
        moietyi_block_record_remember(checked, record);
    pthread_mutex_unlock(&checked->lock);
}

/* False: not now. */
static bool quarantine_look(struct moietyi_checked *checked,
                            struct moietyi_block_record *record)
{
    struct moietyi_section section;
    struct moietyi_pool_body *body = checked->body;
    if (record->is_looked_at || !checked->is_checked)
        return true;
    if (moietyi_context_enter(&body->own_context, &section) != MOIETY_OK)
        return false;
    moietyi_block_record_look(checked, record);
    (void)moietyi_section_leave(&section);
    record->is_looked_at = true;
    return true;
}

/* A step of one that is filled: it is looked at and goes back. */
static bool let_go(struct pass *pass, struct moietyi_block_record *record)
{
    uint64_t bytes = record->base_bytes;
    if (!quarantine_look(pass->checked, record))
        return false;
    pass->given_bytes += bytes;
    if (moietyi_backing_give(pass->checked, pass->call, record) == MOIETY_OK) {
        go(pass->checked, record);
        return true;
    }
    pass->given_bytes -= bytes;
    return false;
}

/* A step of one that waits: it is filled, if it is not. */
static bool quarantine_fill(struct pass *pass,
                            struct moietyi_block_record *record)
{
    struct moietyi_checked *checked = pass->checked;
    struct moietyi_pool_body *body = checked->body;
    struct moietyi_section section;
    if (moietyi_context_enter(&body->own_context, &section) != MOIETY_OK)
        return false;
    bool is_ready = quarantine_is_over(pass->call, record);
    if (is_ready && checked->is_checked && !record->is_filled)
        record->is_filled =
            moietyi_block_record_fill(checked, record, checked->stream);
    if (is_ready)
        quarantine_append(checked, &checked->held, record);
    (void)moietyi_section_leave(&section);
    return is_ready;
}

typedef bool step_fn(struct pass *pass, struct moietyi_block_record *record);

/* Blocks that the step skips go to the end, so that the next walk looks at
 * others. */
static void walk(struct pass *pass, struct moietyi_block_record_queue *queue,
                 step_fn *step)
{
    struct moietyi_block_record *kept = NULL;
    struct moietyi_block_record **end = &kept;
    while (pass->looks && pass->given_bytes < pass->want_bytes) {
        struct moietyi_block_record *record =
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
        struct moietyi_block_record *record = kept;
        kept = record->next;
        quarantine_append(pass->checked, queue, record);
    }
}

static void walk_waiting(struct moietyi_call *call, uint64_t looks)
{
    struct pass pass = {call, call->pool->body->checked, looks, UINT64_MAX, 0};
    walk(&pass, &pass.checked->waiting, quarantine_fill);
}

static uint64_t walk_held(struct moietyi_call *call, uint64_t looks,
                          uint64_t want_bytes)
{
    struct pass pass = {call, call->pool->body->checked, looks, want_bytes, 0};
    walk(&pass, &pass.checked->held, let_go);
    return pass.given_bytes;
}

uint64_t moietyi_quarantine_release(struct moietyi_call *call,
                                    uint64_t want_bytes)
{
    walk_waiting(call, LOOKS_ENDLESS);
    return walk_held(call, LOOKS_ENDLESS, want_bytes);
}

static uint64_t excess_bytes(struct moietyi_checked *checked)
{
    uint64_t may_bytes =
        checked->is_checked ? checked->body->options.quarantine_bytes : 0;
    pthread_mutex_lock(&checked->lock);
    uint64_t bytes = checked->held.bytes + checked->waiting.bytes;
    pthread_mutex_unlock(&checked->lock);
    return bytes > may_bytes ? bytes - may_bytes : 0;
}

void moietyi_quarantine_add(struct moietyi_call *call,
                            struct moietyi_block_record *record)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    quarantine_append(checked, &checked->waiting, record);
    walk_waiting(call, LOOKS_PER_FREE);
    (void)walk_held(call, LOOKS_PER_FREE, excess_bytes(checked));
}

bool moietyi_quarantine_is_any(struct moietyi_checked *checked)
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
static bool quarantine_mark(const struct moietyi_call *call,
                            const struct moietyi_block_record_queue *queue,
                            uint64_t free_count, bool is_over_now)
{
    bool is_any = false;
    for (struct moietyi_block_record *at = queue->first; at; at = at->next) {
        if (at->free_sequence > free_count ||
            !moietyi_wait_needs_synchronise(call, &at->wait))
            continue;
        is_any = true;
        if (is_over_now)
            at->wait = (struct moietyi_wait){0};
    }
    return is_any;
}

void moietyi_quarantine_synchronise(struct moietyi_call *call)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    pthread_mutex_lock(&checked->lock);
    uint64_t free_count = checked->free_count;
    bool is_needed =
        quarantine_mark(call, &checked->waiting, free_count, false);
    pthread_mutex_unlock(&checked->lock);
    if (!is_needed || !moietyi_wait_synchronise(call))
        return;
    pthread_mutex_lock(&checked->lock);
    (void)quarantine_mark(call, &checked->waiting, free_count, true);
    pthread_mutex_unlock(&checked->lock);
}

static moiety_status quarantine_end(struct moietyi_checked *checked,
                                    struct moietyi_block_record *record,
                                    bool is_at_rest)
{
    if (is_at_rest && checked->is_checked && !record->is_looked_at)
        moietyi_block_record_look(checked, record);
    moiety_status status = moietyi_backing_give(checked, NULL, record);
    go(checked, record);
    return status;
}

static moiety_status end_queue(struct moietyi_checked *checked,
                               struct moietyi_block_record_queue *queue,
                               bool is_at_rest)
{
    moiety_status first = MOIETY_OK;
    struct moietyi_block_record *record;
    while ((record = quarantine_pop(checked, queue))) {
        moiety_status status = quarantine_end(checked, record, is_at_rest);
        if (first == MOIETY_OK)
            first = status;
    }
    return first;
}

moiety_status moietyi_quarantine_end(struct moietyi_checked *checked,
                                     bool is_at_rest)
{
    moiety_status waiting = end_queue(checked, &checked->waiting, is_at_rest);
    moiety_status held = end_queue(checked, &checked->held, is_at_rest);
    moiety_status kept = end_queue(checked, &checked->kept, is_at_rest);
    if (waiting != MOIETY_OK)
        return waiting;
    return held == MOIETY_OK ? kept : held;
}
