/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Edge GU: a guard counts itself and then looks for recorders; a recorder
 * counts itself and then looks for guards. Both are sequentially consistent, so
 * at least one of two that meet sees the other.
 */
#include "pool/stream/capture_guard.h"

#include <pthread.h>
#include <stdatomic.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/lock.h"
#include "pool/stream/streams.h"

/* One list for the process: guards begin and end, and pools are made and
 * destroyed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t visited = PTHREAD_COND_INITIALIZER;
static struct moietyi_streams *all_streams; /* by next_guarded */

static atomic_uint guards;    /* Edge GU */
static atomic_uint recorders; /* Edge GU */
/* When a pool last met a capture without a guard; 0: never. Edge: none;
 * relaxed: advice. */
static _Atomic uint64_t seen_ns;

/* Streams are named to the pool more often, and so seen to capture. */
#define LATELY_NS UINT64_C(2000000000)

bool moietyi_capture_guard_is_held(void)
{
    /* GU.seq_cst: a recorder's look, after it has counted itself. */
    return atomic_load_explicit(&guards, memory_order_seq_cst) != 0;
}

void moietyi_capture_guard_join(struct moietyi_streams *streams)
{
    moietyi_lock(&lock);
    streams->next_guarded = all_streams;
    all_streams = streams;
    if (moietyi_capture_guard_is_held())
        streams->hooks.guarded(streams, true);
    moietyi_unlock(&lock);
}

void moietyi_capture_guard_leave(struct moietyi_streams *streams)
{
    moietyi_lock(&lock);
    while (streams->guard_visitors)
        moietyi_lock_wait(&lock, &visited);
    struct moietyi_streams **at = &all_streams;
    while (*at != streams)
        at = &(*at)->next_guarded;
    *at = streams->next_guarded;
    moietyi_unlock(&lock);
}

/* Lock held: pools made later ask when they join. */
static void mark_pools(void)
{
    bool is_held = moietyi_capture_guard_is_held();
    for (struct moietyi_streams *streams = all_streams; streams;
         streams = streams->next_guarded)
        streams->hooks.guarded(streams, is_held);
}

/* The pool after this one, or the first; it does not end before the next call,
 * which releases the one before. */
static struct moietyi_streams *visit_next_pool(struct moietyi_streams *before)
{
    moietyi_lock(&lock);
    struct moietyi_streams *next = before ? before->next_guarded : all_streams;
    if (next)
        next->guard_visitors++;
    if (before && --before->guard_visitors == 0)
        pthread_cond_broadcast(&visited);
    moietyi_unlock(&lock);
    return next;
}

/* Without the lock, because any driver call can take long. */
static void close_epochs(void)
{
    for (struct moietyi_streams *streams = visit_next_pool(NULL); streams;
         streams = visit_next_pool(streams))
        streams->hooks.close(streams);
}

void moietyi_capture_guard_begin(void)
{
    unsigned rounds = 0;
    if (!moietyi_capture_guard_is_held())
        close_epochs();
    moietyi_lock(&lock);
    /* GU.seq_cst: before the look at recorders. */
    atomic_fetch_add_explicit(&guards, 1, memory_order_seq_cst);
    mark_pools();
    moietyi_unlock(&lock);
    /* GU.seq_cst: a guard's look; it acquires what recorders did. */
    while (atomic_load_explicit(&recorders, memory_order_seq_cst) != 0)
        moietyi_let_others(&rounds);
}

moiety_status moietyi_capture_guard_end(void)
{
    moiety_status status = MOIETY_OK;
    moietyi_lock(&lock);
    if (moietyi_capture_guard_is_held())
        /* GU.seq_cst: the capture comes before what recorders do. */
        atomic_fetch_sub_explicit(&guards, 1, memory_order_seq_cst);
    else
        status = moietyi_fail(MOIETY_E_INVALID, "no capture guard is held");
    mark_pools();
    moietyi_unlock(&lock);
    return status;
}

void moietyi_capture_seen(void)
{
    /* It is most likely the guard's capture; the guard says when that is
     * over. */
    if (moietyi_capture_guard_is_held())
        return;
    /* relaxed: see there. */
    atomic_store_explicit(&seen_ns, moietyi_now_ns(), memory_order_relaxed);
}

uint64_t moietyi_capture_age_ns(void)
{
    /* relaxed: see there. */
    uint64_t seen = atomic_load_explicit(&seen_ns, memory_order_relaxed);
    return seen ? moietyi_now_ns() - seen : UINT64_MAX;
}

bool moietyi_capture_is_near(void)
{
    return moietyi_capture_guard_is_held() ||
           moietyi_capture_age_ns() < LATELY_NS;
}

bool moietyi_capture_guard_recorder_begin(void)
{
    /* GU.seq_cst: before the look at guards. */
    atomic_fetch_add_explicit(&recorders, 1, memory_order_seq_cst);
    if (!moietyi_capture_guard_is_held())
        return true;
    moietyi_capture_guard_recorder_end();
    return false;
}

void moietyi_capture_guard_recorder_end(void)
{
    /* GU.seq_cst: what was recorded comes before the capture. */
    atomic_fetch_sub_explicit(&recorders, 1, memory_order_seq_cst);
}
