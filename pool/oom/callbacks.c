/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each callback has a number, counted up. A round calls those whose numbers are
 * below the one that would have come next when the round began, in order; so
 * what a callback registers waits for the next round, and what one removes is
 * just not found any more.
 */
#include "pool/oom/callbacks.h"

#include <stdlib.h>

#include "binade/oom.h"
#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/core/body.h"
#include "pool/oom/beside.h"
#include "pool/oom/escalation.h"

struct binadei_callback {
    struct binadei_callback *next;
    uint64_t number;
    binade_oom_callback function;
    void *user;
    uint32_t running;   /* threads that are in it */
    uint32_t is_wanted; /* by who removes it: nobody may begin it any more */
};

void binadei_callbacks_init(struct binadei_callbacks *callbacks)
{
    pthread_mutex_init(&callbacks->lock, NULL);
    pthread_cond_init(&callbacks->returned, NULL);
}

void binadei_callbacks_fini(struct binadei_callbacks *callbacks)
{
    while (callbacks->first) {
        struct binadei_callback *callback = callbacks->first;
        callbacks->first = callback->next;
        free(callback);
    }
    pthread_cond_destroy(&callbacks->returned);
    pthread_mutex_destroy(&callbacks->lock);
}

bool binadei_has_callbacks(const struct binadei_escalation *escalation)
{
    /* A callback's own allocations call none. */
    return !binadei_is_beside(escalation->call) &&
           atomic_load_explicit(&escalation->body->callbacks->count,
                                memory_order_relaxed) != 0;
}

/* The next one of a round, which is running from now on; NULL: none is left. */
static struct binadei_callback *begin_next(struct binadei_callbacks *callbacks,
                                           uint64_t from, uint64_t end_number)
{
    pthread_mutex_lock(&callbacks->lock);
    struct binadei_callback *callback = callbacks->first;
    while (callback && (callback->number < from || callback->is_wanted))
        callback = callback->next;
    if (callback && callback->number >= end_number)
        callback = NULL;
    if (callback)
        callback->running++;
    pthread_mutex_unlock(&callbacks->lock);
    return callback;
}

static void callbacks_finish(struct binadei_callbacks *callbacks,
                             struct binadei_callback *callback)
{
    pthread_mutex_lock(&callbacks->lock);
    callback->running--;
    pthread_cond_broadcast(&callbacks->returned);
    pthread_mutex_unlock(&callbacks->lock);
}

static uint64_t callbacks_next_number(struct binadei_callbacks *callbacks)
{
    pthread_mutex_lock(&callbacks->lock);
    uint64_t number = callbacks->next_number;
    pthread_mutex_unlock(&callbacks->lock);
    return number;
}

struct callback_call {
    const struct binadei_escalation *escalation;
    const struct binadei_callback *callback;
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

/* Looks where the callback may have freed something: also with the source. */
static bool callbacks_search(struct binadei_escalation *escalation)
{
    struct binadei_call *call = escalation->call;
    (void)binadei_steal_caches(call);
    (void)binadei_reclaim_own(call);
    escalation->refused_at_bytes = UINT64_MAX;
    return binadei_take_last(call, escalation->request, &escalation->address) ||
           binadei_grow_again(escalation);
}

enum binadei_verdict binadei_call_back(struct binadei_escalation *escalation)
{
    struct binadei_callbacks *callbacks = escalation->body->callbacks;
    struct binadei_callback *callback;
    uint64_t end_number = callbacks_next_number(callbacks);
    uint64_t number = 0;
    while ((callback = begin_next(callbacks, number, end_number))) {
        struct callback_call one = {escalation, callback, false};
        number = callback->number + 1;
        binade_status status =
            binadei_call_beside(escalation->call, callbacks_call, &one);
        callbacks_finish(callbacks, callback);
        escalation->report.callback_calls++;
        escalation->report.callback_successes += one.has_freed;
        if (status != BINADE_OK) {
            escalation->refusal = status;
            return BINADEI_BROKEN;
        }
        if (one.has_freed && callbacks_search(escalation))
            return BINADEI_FOUND;
    }
    return BINADEI_EXHAUSTED;
}

/* Lock held. The link to it, or to NULL. */
static struct binadei_callback **
callbacks_find(struct binadei_callbacks *callbacks,
               binade_oom_callback function, const void *user)
{
    struct binadei_callback **at = &callbacks->first;
    while (*at && ((*at)->function != function || (*at)->user != user ||
                   (*at)->is_wanted))
        at = &(*at)->next;
    return at;
}

static binade_status callbacks_add(struct binadei_callbacks *callbacks,
                                   binade_oom_callback function, void *user)
{
    struct binadei_callback *callback = calloc(1, sizeof(*callback));
    if (!callback)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory for a callback");
    callback->function = function;
    callback->user = user;
    pthread_mutex_lock(&callbacks->lock);
    bool is_new = !*callbacks_find(callbacks, function, user);
    if (is_new) {
        struct binadei_callback **last = &callbacks->first;
        while (*last)
            last = &(*last)->next;
        *last = callback;
        callback->number = callbacks->next_number++;
        atomic_fetch_add_explicit(&callbacks->count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&callbacks->lock);
    if (is_new)
        return BINADE_OK;
    free(callback);
    return binadei_fail(BINADE_E_INVALID,
                        "the callback is registered with this user already");
}

/* Lock held; unlinked, and nobody is in it. */
static void unlink_callback(struct binadei_callbacks *callbacks,
                            struct binadei_callback *callback)
{
    struct binadei_callback **at = &callbacks->first;
    while (*at != callback)
        at = &(*at)->next;
    *at = callback->next;
    atomic_fetch_sub_explicit(&callbacks->count, 1, memory_order_relaxed);
}

static binade_status remove_callback(struct binadei_callbacks *callbacks,
                                     binade_oom_callback function,
                                     const void *user, bool may_wait)
{
    pthread_mutex_lock(&callbacks->lock);
    struct binadei_callback *callback =
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
        return binadei_fail(BINADE_E_INVALID,
                            "the callback is not registered with this user");
    if (is_in_use)
        return binadei_fail(BINADE_E_BUSY,
                            "the callback is running, and a callback may not "
                            "wait for it");
    free(callback);
    return BINADE_OK;
}

/* What both check; `out_is_inside`: this thread is inside a callback. */
static binade_status callbacks_check(binade_pool *pool,
                                     binade_oom_callback function,
                                     bool *out_is_inside)
{
    struct binadei_call call;
    if (!function)
        return binadei_fail(BINADE_E_INVALID, "the callback is NULL");
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    *out_is_inside = binadei_is_beside(&call);
    binadei_call_leave(&call);
    return BINADE_OK;
}

binade_status binade_pool_add_oom_callback(binade_pool *pool,
                                           binade_oom_callback callback,
                                           void *user)
{
    bool is_inside = false;
    binade_status status = callbacks_check(pool, callback, &is_inside);
    return status == BINADE_OK
               ? callbacks_add(pool->body->callbacks, callback, user)
               : status;
}

binade_status binade_pool_remove_oom_callback(binade_pool *pool,
                                              binade_oom_callback callback,
                                              void *user)
{
    bool is_inside = false;
    binade_status status = callbacks_check(pool, callback, &is_inside);
    if (status != BINADE_OK)
        return status;
    int cancel_state = binadei_cancel_hold();
    status = remove_callback(pool->body->callbacks, callback, user, !is_inside);
    binadei_cancel_restore(cancel_state);
    return status;
}
