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

static struct binadei_watch *
checked_shelf_pop(struct binadei_checked *checked,
                  struct binadei_watch_queue *queue)
{
    pthread_mutex_lock(&checked->lock);
    struct binadei_watch *watch = queue->first;
    if (watch) {
        binadei_queue_remove(queue, watch);
        watch->state = BINADEI_WATCH_MOVING;
        checked->moving_count++;
    }
    pthread_mutex_unlock(&checked->lock);
    return watch;
}

static void checked_shelf_append(struct binadei_checked *checked,
                                 struct binadei_watch_queue *queue,
                                 struct binadei_watch *watch)
{
    pthread_mutex_lock(&checked->lock);
    watch->state = BINADEI_WATCH_HELD;
    binadei_queue_append(queue, watch);
    checked->moving_count--;
    pthread_mutex_unlock(&checked->lock);
}

/* In a section. */
static bool checked_shelf_is_over(struct binadei_call *call,
                                  struct binadei_watch *watch)
{
    return binadei_wait_is_over(call, &watch->wait);
}

/* Its memory is another's from now on. */
static void go(struct binadei_checked *checked, struct binadei_watch *watch)
{
    pthread_mutex_lock(&checked->lock);
    checked->moving_count--;
    if (watch->is_stray || watch->is_replaced)
        free(watch);
    else
        binadei_watch_remember(checked, watch);
    pthread_mutex_unlock(&checked->lock);
}

/* False: not now. */
static bool checked_shelf_look(struct binadei_checked *checked,
                               struct binadei_watch *watch)
{
    struct binadei_section section;
    struct binadei_pool_body *body = checked->body;
    if (watch->is_looked_at || !checked->is_checked)
        return true;
    if (binadei_context_enter(&body->home, &section) != BINADE_OK)
        return false;
    binadei_watch_look(checked, watch);
    (void)binadei_section_leave(&section);
    watch->is_looked_at = true;
    return true;
}

/* A step of one that is filled: it is looked at and goes back. */
static bool let_go(struct pass *pass, struct binadei_watch *watch)
{
    uint64_t bytes = watch->base_bytes;
    if (!checked_shelf_look(pass->checked, watch))
        return false;
    pass->given_bytes += bytes;
    if (binadei_backing_give(pass->checked, pass->call, watch) == BINADE_OK) {
        go(pass->checked, watch);
        return true;
    }
    pass->given_bytes -= bytes;
    return false;
}

/* A step of one that waits: it is filled, if it is not. */
static bool checked_shelf_fill(struct pass *pass, struct binadei_watch *watch)
{
    struct binadei_checked *checked = pass->checked;
    struct binadei_pool_body *body = checked->body;
    struct binadei_section section;
    if (binadei_context_enter(&body->home, &section) != BINADE_OK)
        return false;
    bool is_ready = checked_shelf_is_over(pass->call, watch);
    if (is_ready && checked->is_checked && !watch->is_filled)
        watch->is_filled = binadei_watch_fill(checked, watch, checked->stream);
    if (is_ready)
        checked_shelf_append(checked, &checked->held, watch);
    (void)binadei_section_leave(&section);
    return is_ready;
}

typedef bool step_fn(struct pass *pass, struct binadei_watch *watch);

/* What the step does not want goes to the end, so that the next walk looks at
 * others. */
static void walk(struct pass *pass, struct binadei_watch_queue *queue,
                 step_fn *step)
{
    struct binadei_watch *kept = NULL;
    struct binadei_watch **end = &kept;
    while (pass->looks && pass->given_bytes < pass->want_bytes) {
        struct binadei_watch *watch = checked_shelf_pop(pass->checked, queue);
        if (!watch)
            break;
        pass->looks--;
        if (!step(pass, watch)) {
            *end = watch;
            end = &watch->next;
        }
    }
    while (kept) {
        struct binadei_watch *watch = kept;
        kept = watch->next;
        checked_shelf_append(pass->checked, queue, watch);
    }
}

static void walk_waiting(struct binadei_call *call, uint64_t looks)
{
    struct pass pass = {call, call->pool->body->checked, looks, UINT64_MAX, 0};
    walk(&pass, &pass.checked->waiting, checked_shelf_fill);
}

static uint64_t walk_held(struct binadei_call *call, uint64_t looks,
                          uint64_t want_bytes)
{
    struct pass pass = {call, call->pool->body->checked, looks, want_bytes, 0};
    walk(&pass, &pass.checked->held, let_go);
    return pass.given_bytes;
}

uint64_t binadei_shelf_release(struct binadei_call *call, uint64_t want_bytes)
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

void binadei_shelf_add(struct binadei_call *call, struct binadei_watch *watch)
{
    struct binadei_checked *checked = call->pool->body->checked;
    checked_shelf_append(checked, &checked->waiting, watch);
    walk_waiting(call, LOOKS_PER_FREE);
    (void)walk_held(call, LOOKS_PER_FREE, excess_bytes(checked));
}

bool binadei_shelf_is_any(struct binadei_checked *checked)
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
static bool checked_shelf_mark(const struct binadei_call *call,
                               const struct binadei_watch_queue *queue,
                               uint64_t free_count, bool is_over_now)
{
    bool is_any = false;
    for (struct binadei_watch *at = queue->first; at; at = at->next) {
        if (at->free_sequence > free_count ||
            !binadei_wait_needs_synchronise(call, &at->wait))
            continue;
        is_any = true;
        if (is_over_now)
            at->wait = (struct binadei_wait){0};
    }
    return is_any;
}

void binadei_shelf_synchronise(struct binadei_call *call)
{
    struct binadei_checked *checked = call->pool->body->checked;
    pthread_mutex_lock(&checked->lock);
    uint64_t free_count = checked->free_count;
    bool is_needed =
        checked_shelf_mark(call, &checked->waiting, free_count, false);
    pthread_mutex_unlock(&checked->lock);
    if (!is_needed || !binadei_wait_synchronise(call))
        return;
    pthread_mutex_lock(&checked->lock);
    (void)checked_shelf_mark(call, &checked->waiting, free_count, true);
    pthread_mutex_unlock(&checked->lock);
}

static binade_status checked_shelf_end(struct binadei_checked *checked,
                                       struct binadei_watch *watch,
                                       bool is_at_rest)
{
    if (is_at_rest && checked->is_checked && !watch->is_looked_at)
        binadei_watch_look(checked, watch);
    binade_status status = binadei_backing_give(checked, NULL, watch);
    go(checked, watch);
    return status;
}

static binade_status end_queue(struct binadei_checked *checked,
                               struct binadei_watch_queue *queue,
                               bool is_at_rest)
{
    binade_status first = BINADE_OK;
    struct binadei_watch *watch;
    while ((watch = checked_shelf_pop(checked, queue))) {
        binade_status status = checked_shelf_end(checked, watch, is_at_rest);
        if (first == BINADE_OK)
            first = status;
    }
    return first;
}

binade_status binadei_shelf_end(struct binadei_checked *checked,
                                bool is_at_rest)
{
    binade_status waiting = end_queue(checked, &checked->waiting, is_at_rest);
    binade_status held = end_queue(checked, &checked->held, is_at_rest);
    binade_status kept = end_queue(checked, &checked->kept, is_at_rest);
    if (waiting != BINADE_OK)
        return waiting;
    return held == BINADE_OK ? kept : held;
}
