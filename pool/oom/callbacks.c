/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each callback has a number, counted up. An allocation calls those that were
 * registered before it began, in order of their numbers. So a callback that
 * another registers is first called by the next allocation, and one that
 * another removes is not found any more. The allocation repeats the round for
 * as long as callbacks free.
 */
#include "pool/oom/callbacks.h"

#include <stdlib.h>

#include "moiety/oom.h"
#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/core/body.h"
#include "pool/oom/beside.h"
#include "pool/oom/escalation.h"
#include "pool/oom/give_back.h"

/* Rounds in which a callback reports a free and the pool has no more than
 * before: it may have been the driver's memory, or others allocated
 * meanwhile. */
#define VAIN_ROUNDS_MOST 16U

struct moietyi_callback {
    struct moietyi_callback *next;
    uint64_t number;
    moiety_oom_callback function;
    void *user;
    uint32_t running;   /* threads that are in it */
    uint32_t is_wanted; /* set by its remover: nobody may begin it */
};

void moietyi_callbacks_init(struct moietyi_callbacks *callbacks)
{
    pthread_mutex_init(&callbacks->lock, NULL);
    pthread_cond_init(&callbacks->returned, NULL);
}

void moietyi_callbacks_fini(struct moietyi_callbacks *callbacks)
{
    while (callbacks->first) {
        struct moietyi_callback *callback = callbacks->first;
        callbacks->first = callback->next;
        free(callback);
    }
    pthread_cond_destroy(&callbacks->returned);
    pthread_mutex_destroy(&callbacks->lock);
}

bool moietyi_has_callbacks(const struct moietyi_escalation *escalation)
{
    /* A callback's own allocations call no callbacks. */
    return !moietyi_is_beside(escalation->call) &&
           atomic_load_explicit(&escalation->body->callbacks->count,
                                memory_order_relaxed) != 0;
}

/* The next callback of a round, which counts as running from now on; NULL: none
 * is left. */
static struct moietyi_callback *begin_next(struct moietyi_callbacks *callbacks,
                                           uint64_t from, uint64_t end_number)
{
    pthread_mutex_lock(&callbacks->lock);
    struct moietyi_callback *callback = callbacks->first;
    while (callback && (callback->number < from || callback->is_wanted))
        callback = callback->next;
    if (callback && callback->number >= end_number)
        callback = NULL;
    if (callback)
        callback->running++;
    pthread_mutex_unlock(&callbacks->lock);
    return callback;
}

static void callbacks_finish(struct moietyi_callbacks *callbacks,
                             struct moietyi_callback *callback)
{
    pthread_mutex_lock(&callbacks->lock);
    callback->running--;
    pthread_cond_broadcast(&callbacks->returned);
    pthread_mutex_unlock(&callbacks->lock);
}

static uint64_t callbacks_next_number(struct moietyi_callbacks *callbacks)
{
    pthread_mutex_lock(&callbacks->lock);
    uint64_t number = callbacks->next_number;
    pthread_mutex_unlock(&callbacks->lock);
    return number;
}

struct callback_call {
    const struct moietyi_escalation *escalation;
    const struct moietyi_callback *callback;
    bool has_freed;
};

static void callbacks_call(void *context)
{
    struct callback_call *one = context;
    one->has_freed =
        one->callback->function(one->escalation->call->pool,
                                one->escalation->request->size_bytes,
                                one->callback->user) != 0;
}

/* Looks for memory after a callback, also in the source. */
static bool callbacks_search(struct moietyi_escalation *escalation)
{
    struct moietyi_call *call = escalation->call;
    (void)moietyi_steal_caches(call);
    (void)moietyi_reclaim_own(call);
    escalation->refused_at_bytes = UINT64_MAX;
    return moietyi_take_last(call, escalation->request, &escalation->address) ||
           moietyi_grow_again(escalation);
}

/* Calls one after the other. `out_has_freed`: one reports a free, and it was
 * not enough. */
static enum moietyi_verdict call_round(struct moietyi_escalation *escalation,
                                       uint64_t end_number, bool *out_has_freed)
{
    struct moietyi_callbacks *callbacks = escalation->body->callbacks;
    struct moietyi_callback *callback;
    uint64_t number = 0;
    *out_has_freed = false;
    while ((callback = begin_next(callbacks, number, end_number))) {
        struct callback_call one = {escalation, callback, false};
        number = callback->number + 1;
        moiety_status status =
            moietyi_call_beside(escalation->call, callbacks_call, &one);
        callbacks_finish(callbacks, callback);
        escalation->report.callback_calls++;
        escalation->report.callback_successes += one.has_freed;
        *out_has_freed |= one.has_freed;
        if (status != MOIETY_OK) {
            escalation->refusal = status;
            return MOIETYI_BROKEN;
        }
        if (one.has_freed && callbacks_search(escalation))
            return MOIETYI_FOUND;
    }
    return MOIETYI_EXHAUSTED;
}

/* Freed memory that waits for work may be enough, and is waited for next:
 * another round could free more without need. */
static bool is_on_its_way(const struct moietyi_escalation *escalation)
{
    return escalation->report.retiring_bytes >=
           moietyi_escalation_bytes(escalation);
}

/* Whole segments that were freed make room for a new one: that is tried before
 * the program frees more. */
static bool callbacks_regrow(struct moietyi_escalation *escalation)
{
    struct moietyi_given_back given;
    if (!moietyi_segments_whole_bytes(escalation->body->segments))
        return false;
    moiety_status status = moietyi_give_back(escalation->call, 0, &given);
    moietyi_escalation_note(escalation, MOIETY_HISTORY_TRIM, status,
                            given.bytes);
    escalation->report.steps[MOIETY_OOM_TRIM].gave_bytes += given.bytes;
    escalation->is_held_up = given.is_held_up;
    return given.bytes &&
           moietyi_escalation_is_found(escalation, MOIETY_OOM_GROW,
                                       moietyi_escalation_grow);
}

enum moietyi_verdict moietyi_call_back(struct moietyi_escalation *escalation)
{
    uint64_t end_number = callbacks_next_number(escalation->body->callbacks);
    unsigned vain_count = 0;
    moietyi_oom_look(escalation);
    for (;;) {
        bool has_freed;
        uint64_t before_bytes = escalation->report.live_bytes;
        enum moietyi_verdict verdict =
            call_round(escalation, end_number, &has_freed);
        if (verdict != MOIETYI_EXHAUSTED || !has_freed)
            return verdict;
        moietyi_oom_look(escalation);
        vain_count += escalation->report.live_bytes >= before_bytes;
        if (is_on_its_way(escalation))
            return MOIETYI_EXHAUSTED;
        if (callbacks_regrow(escalation))
            return MOIETYI_FOUND;
        if (vain_count == VAIN_ROUNDS_MOST)
            return MOIETYI_EXHAUSTED;
    }
}

/* Lock held. The link to it, or to NULL. */
static struct moietyi_callback **
callbacks_find(struct moietyi_callbacks *callbacks,
               moiety_oom_callback function, const void *user)
{
    struct moietyi_callback **at = &callbacks->first;
    while (*at && ((*at)->function != function || (*at)->user != user ||
                   (*at)->is_wanted))
        at = &(*at)->next;
    return at;
}

static moiety_status callbacks_add(struct moietyi_callbacks *callbacks,
                                   moiety_oom_callback function, void *user)
{
    struct moietyi_callback *callback = calloc(1, sizeof(*callback));
    if (!callback)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for a callback");
    callback->function = function;
    callback->user = user;
    pthread_mutex_lock(&callbacks->lock);
    bool is_new = !*callbacks_find(callbacks, function, user);
    if (is_new) {
        struct moietyi_callback **last = &callbacks->first;
        while (*last)
            last = &(*last)->next;
        *last = callback;
        callback->number = callbacks->next_number++;
        atomic_fetch_add_explicit(&callbacks->count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&callbacks->lock);
    if (is_new)
        return MOIETY_OK;
    free(callback);
    return moietyi_fail(MOIETY_E_INVALID,
                        "the callback is registered with this user already");
}

/* Lock held; unlinked, and nobody is in it. */
static void unlink_callback(struct moietyi_callbacks *callbacks,
                            struct moietyi_callback *callback)
{
    struct moietyi_callback **at = &callbacks->first;
    while (*at != callback)
        at = &(*at)->next;
    *at = callback->next;
    atomic_fetch_sub_explicit(&callbacks->count, 1, memory_order_relaxed);
}

static moiety_status remove_callback(struct moietyi_callbacks *callbacks,
                                     moiety_oom_callback function,
                                     const void *user, bool may_wait)
{
    pthread_mutex_lock(&callbacks->lock);
    struct moietyi_callback *callback =
        *callbacks_find(callbacks, function, user);
    bool is_in_use = callback && callback->running && !may_wait;
    if (callback && !is_in_use) {
        callback->is_wanted = 1;
        while (callback->running)
            pthread_cond_wait(&callbacks->returned, &callbacks->lock);
        unlink_callback(callbacks, callback);
    }
    pthread_mutex_unlock(&callbacks->lock);
    if (!callback)
        return moietyi_fail(MOIETY_E_INVALID,
                            "the callback is not registered with this user");
    if (is_in_use)
        return moietyi_fail(MOIETY_E_REENTRANT,
                            "the callback is running, and a callback may not "
                            "wait for it");
    free(callback);
    return MOIETY_OK;
}

/* The checks of both calls; `out_is_inside`: this thread is inside a
 * callback. */
static moiety_status callbacks_check(moiety_pool *pool,
                                     moiety_oom_callback function,
                                     bool *out_is_inside)
{
    struct moietyi_call call;
    if (!function)
        return moietyi_fail(MOIETY_E_INVALID, "the callback is NULL");
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    *out_is_inside = moietyi_is_beside(&call);
    moietyi_call_leave(&call);
    return MOIETY_OK;
}

moiety_status moiety_pool_add_oom_callback(moiety_pool *pool,
                                           moiety_oom_callback callback,
                                           void *user)
{
    bool is_inside = false;
    moiety_status status = callbacks_check(pool, callback, &is_inside);
    return status == MOIETY_OK
               ? callbacks_add(pool->body->callbacks, callback, user)
               : status;
}

moiety_status moiety_pool_remove_oom_callback(moiety_pool *pool,
                                              moiety_oom_callback callback,
                                              void *user)
{
    bool is_inside = false;
    moiety_status status = callbacks_check(pool, callback, &is_inside);
    if (status != MOIETY_OK)
        return status;
    int cancel_state = moietyi_cancel_hold();
    status = remove_callback(pool->body->callbacks, callback, user, !is_inside);
    moietyi_cancel_restore(cancel_state);
    return status;
}
