/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pools that all of the process shares, one for each device. One that is found
 * lost makes room for a new one; its handle stays, so that late frees find it.
 *
 * The lock is held for instants, and inside a call of the thread: so a signal
 * handler that comes meanwhile is refused, and does not wait for its own thread.
 * While a pool is made nobody holds the lock. All are made with the same options,
 * also one that replaces another.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "moiety/pool.h"
#include "pool/api/settings.h"
#include "pool/base/cancel.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/lock.h"
#include "pool/cache/handle.h"
#include "pool/cache/thread.h"
#include "pool/config/options.h"

#define DEVICES_MAX 64
#define NAP_NS 10000L
#define NAP_MOST_NS 1000000L

static struct place {
    /* Edge DP: made (release) -> found (acquire). Changed under the lock. */
    _Atomic(moiety_pool *) pool;
    /* The lock's: a thread makes it, this one. */
    bool is_in_making;
    pthread_t maker;
} places[DEVICES_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Options that were given, those before them too: none is ever freed. */
struct given {
    const struct given *before;
    moiety_pool_options options;
};

/* Edge DO: set_options (release) -> begin_with (acquire). The address of the last ones,
 * and IS_BEGUN from the first pool on. No lock and no call of a thread: a program may
 * give options and fork, and its children make pools. */
static _Atomic uintptr_t last_given;
#define IS_BEGUN ((uintptr_t)1)

/* NULL: there is none, or its context is lost. */
static moiety_pool *find(struct place *place)
{
    /* DP.acquire: the pool is whole. */
    moiety_pool *pool =
        atomic_load_explicit(&place->pool, memory_order_acquire);
    return pool && !moietyi_is_lost(pool) ? pool : NULL;
}

/* The options, which nobody can set any more. */
static moiety_pool_options begin_with(void)
{
    const moiety_pool_options defaults = MOIETY_POOL_OPTIONS_INIT;
    /* DO.acquire: the options are whole. */
    uintptr_t last =
        atomic_fetch_or_explicit(&last_given, IS_BEGUN, memory_order_acquire) &
        ~IS_BEGUN;
    return last ? ((const struct given *)last)->options : defaults;
}

enum turn { TURN_FOUND, TURN_MAKES, TURN_WAITS, TURN_OWN };

/* Lock held. The maker gets the options. */
static enum turn turn_of(struct place *place, moiety_pool_options *out_options)
{
    if (find(place))
        return TURN_FOUND;
    if (place->is_in_making)
        return pthread_equal(place->maker, pthread_self()) ? TURN_OWN
                                                           : TURN_WAITS;
    *out_options = begin_with();
    place->is_in_making = true;
    place->maker = pthread_self();
    return TURN_MAKES;
}

static moiety_status take_turn(struct place *place, enum turn *out,
                               moiety_pool_options *out_options)
{
    struct moietyi_thread_call call;
    moiety_status status = moietyi_thread_call_begin(&call);
    if (status != MOIETY_OK)
        return status;
    moietyi_lock(&lock);
    *out = turn_of(place, out_options);
    moietyi_unlock(&lock);
    moietyi_thread_call_end(&call);
    return *out == TURN_OWN
               ? moietyi_fail(MOIETY_E_REENTRANT,
                              "this thread is making the default pool")
               : MOIETY_OK;
}

static moiety_status make(struct place *place,
                          const moiety_pool_options *options)
{
    moiety_pool *pool = NULL;
    moiety_status status = moietyi_default_pool_create(options, &pool);
    moietyi_lock(&lock);
    /* DP.release: see find(). */
    if (status == MOIETY_OK)
        atomic_store_explicit(&place->pool, pool, memory_order_release);
    place->is_in_making = false;
    moietyi_unlock(&lock);
    return status;
}

static moiety_status default_pool_slow(int32_t device)
{
    struct place *place = &places[device];
    moiety_pool_options options;
    enum turn turn = TURN_WAITS;
    long nap_ns = NAP_NS;
    moiety_status status = take_turn(place, &turn, &options);
    while (status == MOIETY_OK && turn == TURN_WAITS) {
        moietyi_nap_longer(&nap_ns, NAP_MOST_NS);
        status = take_turn(place, &turn, &options);
    }
    if (status != MOIETY_OK || turn != TURN_MAKES)
        return status;
    options.device = device;
    return make(place, &options);
}

static moiety_status take_options(const moiety_pool_options *given,
                                  moiety_pool_options *out)
{
    moiety_pool_options resolved;
    if (!given)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_default_pool_set_options: options is NULL");
    moiety_status status = moietyi_options_copy(given, out);
    if (status == MOIETY_OK)
        status = moietyi_options_resolve(out, NULL, &resolved);
    if (status != MOIETY_OK)
        return status;
    if (out->device || out->context || out->source ||
        out->allocation_callbacks) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_default_pool_set_options: device, context, "
                            "source and allocation_callbacks must be 0, as the "
                            "options are for every device");
    }
    return MOIETY_OK;
}

static moiety_status set_options(const moiety_pool_options *options)
{
    struct given *given = malloc(sizeof(*given));
    if (!given)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for the options of default pools");
    given->options = *options;
    /* relaxed: compared and stored, never followed. */
    uintptr_t last = atomic_load_explicit(&last_given, memory_order_relaxed);
    do {
        if (last & IS_BEGUN) {
            free(given);
            return moietyi_fail(MOIETY_E_IN_USE,
                                "the process has a default pool already");
        }
        given->before = (const struct given *)last;
        /* DO.release: the options are whole. On failure as above. */
    } while (!atomic_compare_exchange_weak_explicit(
        &last_given, &last, (uintptr_t)given, memory_order_release,
        memory_order_relaxed));
    return MOIETY_OK;
}

moiety_status
moiety_default_pool_set_options(const moiety_pool_options *options)
{
    moiety_pool_options taken;
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    moiety_status status = take_options(options, &taken);
    return status == MOIETY_OK ? set_options(&taken) : status;
}

moiety_status moiety_default_pool(int32_t device, moiety_pool **out)
{
    moiety_status status = MOIETY_OK;
    if (!out || device < 0 || device >= DEVICES_MAX) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_default_pool: out is NULL, or device is "
                            "%d; accepted are 0 to %d",
                            device, DEVICES_MAX - 1);
    }
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    moiety_pool *pool = find(&places[device]);
    while (!pool && status == MOIETY_OK) {
        int cancel_state = moietyi_cancel_hold();
        status = default_pool_slow(device);
        moietyi_cancel_restore(cancel_state);
        pool = find(&places[device]);
    }
    if (status == MOIETY_OK)
        *out = pool;
    return status;
}
