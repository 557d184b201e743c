/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What an allocation can get back before it fails. Each step says whether it
 * made anything free; their order is the facade's.
 */
#include <limits.h>

#include "pool/base/barrier.h"
#include "pool/base/clock.h"
#include "pool/base/step.h"
#include "pool/cache/cache.h"
#include "pool/cache/magazine.h"
#include "pool/cache/registry.h"
#include "pool/cache/uses.h"
#include "pool/driver/section.h"
#include "pool/stream/capture_guard.h"
#include "pool/stream/epoch.h"
#include "pool/stream/stream_state.h"

/* An event on a context that has nothing to do is over in some microseconds:
 * that is worth waiting for before the driver is asked for more memory. */
#define RECORD_NS 10000L
/* Each thread that comes, and each miss, takes over what so many ended ones left:
 * more than one, so that they become fewer, and few, so that no call is long. */
#define ABANDONED_AT_ONCE 8U
/* Thousands of hits. */
#define PAUSE_NS UINT64_C(1000000)
/* A thread rests that has used no cache for so long, which is also how often one
 * looks; and the part of all time that looks may take. */
#define REST_NS UINT64_C(10000000)
#define LOOKS_PART 50U

/* While the pool may grow, what streams freed is left to them: closing their
 * epochs takes it from them all, and they would take it back. Unless that is more
 * than half of the pool; or, of mapped memory, whose free pieces serve whoever
 * needs them, what other streams have is more than an eighth. */
#define LEFT_PART 2U
#define MAPPED_LEFT_PART 8U

/* What waits for events and the call may not take before. */
static uint64_t others_bytes(const struct binadei_call *call)
{
    const struct binadei_maps *own = binadei_call_view(call).maps;
    uint64_t all_bytes = binadei_epochs_bytes(&call->engine->streams);
    uint64_t own_bytes = (binadei_maps_grains(own, BINADEI_FRESH) +
                          binadei_maps_grains(own, BINADEI_AGEING)) *
                         BINADEI_GRAIN_BYTES;
    return all_bytes > own_bytes ? all_bytes - own_bytes : 0;
}

static bool is_worth_closing(const struct binadei_call *call)
{
    const struct binadei_segments *segments = call->engine->segments;
    uint64_t reserved = binadei_segments_reserved_bytes(segments);
    if (call->is_pressed)
        return true;
    return binadei_segments_are_mapped(segments)
               ? MAPPED_LEFT_PART * others_bytes(call) > reserved
               : LEFT_PART * binadei_epochs_bytes(&call->engine->streams) >
                     reserved;
}

/* Grains that became done. */
static bool count_given(struct binadei_call *call, uint64_t grains)
{
    call->thread_state->given_bytes += grains * BINADEI_GRAIN_BYTES;
    return grains != 0;
}

static bool drain_done(struct binadei_call *call,
                       const struct binadei_stream_user *user)
{
    return count_given(call, binadei_epochs_poll(user));
}

bool binadei_reclaim_done(struct binadei_call *call)
{
    const struct binadei_stream_user user = binadei_call_user(call);
    bool is_any = drain_done(call, &user);
    if (!is_worth_closing(call) || !binadei_epochs_close_all(&user))
        return is_any;
    bool is_more = drain_done(call, &user);
    if (!is_any && !is_more) {
        binadei_nap(RECORD_NS);
        is_more = drain_done(call, &user);
    }
    return is_any || is_more;
}

/* The places that handles left are used again after an event, which somebody has
 * to record. */
static void ask_for_left(struct binadei_call *call)
{
    const struct binadei_stream_user user = binadei_call_user(call);
    uint64_t number = binadei_segments_left_at(
        call->engine->segments, binadei_epochs_passed(&call->engine->streams));
    struct binadei_section section;
    if (!number || binadei_context_enter(call->engine->streams.own_context,
                                         &section) != BINADE_OK)
        return;
    (void)binadei_epochs_have_passed(&user, number);
    (void)binadei_section_leave(&section);
}

binade_status binadei_extend_for(struct binadei_call *call,
                                 uint64_t needed_bytes)
{
    const struct binadei_streams *streams = &call->engine->streams;
    const struct binadei_view view = binadei_call_view(call);
    ask_for_left(call);
    const struct binadei_extension extension = {
        .needed_bytes = needed_bytes,
        .view = &view,
        .passed_epoch = binadei_epochs_passed(streams),
        /* A graph would go on using the old place. */
        .next_epoch = streams->driver->cuCtxRecordEvent && !call->is_capturing
                          ? binadei_epochs_next
                          : NULL,
        .streams = streams};
    return binadei_segments_extend(call->engine->segments, &extension);
}

binade_status binadei_trim_for(struct binadei_call *call, uint64_t keep_bytes,
                               uint64_t *out_bytes)
{
    struct binadei_segments *segments = call->engine->segments;
    ask_for_left(call);
    binadei_segments_unmap_left(segments,
                                binadei_epochs_passed(&call->engine->streams));
    return binadei_segments_trim(segments, keep_bytes, out_bytes);
}

binade_status binadei_trim_unwatched(struct binadei_call *call,
                                     uint64_t *out_bytes)
{
    ask_for_left(call);
    return binadei_segments_trim_unwatched(
        call->engine->segments, binadei_epochs_passed(&call->engine->streams),
        out_bytes);
}

void binadei_reclaim_own_stream(struct binadei_call *call)
{
    const struct binadei_stream_user user = binadei_call_user(call);
    binadei_epochs_close_own(&user);
}

void binadei_reclaim_before_capture(struct binadei_call *call)
{
    const struct binadei_stream_user user = binadei_call_user(call);
    if (call->is_capturing)
        return;
    binadei_depot_drain(call->thread_state, call->push->stream_state);
    (void)binadei_cache_empty(call->thread_state, call->push);
    binadei_epochs_record_own(&user);
}

bool binadei_reclaim_idle_streams(struct binadei_call *call)
{
    struct binadei_streams *streams = &call->engine->streams;
    struct binadei_section section;
    if (binadei_capture_guard_is_held() ||
        !binadei_epochs_are_pending(streams) ||
        binadei_context_enter(streams->own_context, &section) != BINADE_OK)
        return false;
    uint64_t grains = binadei_epochs_ask_streams(streams);
    grains += binadei_uses_ask(call->thread_state);
    (void)binadei_section_leave(&section);
    return count_given(call, grains);
}

bool binadei_reclaim_synchronise(struct binadei_call *call)
{
    const struct binadei_stream_user user = binadei_call_user(call);
    return count_given(call, binadei_epochs_synchronise(&user));
}

/* Depots are all threads', so also the caller's. */
static void drain_depot(struct binadei_thread_state *thread_state,
                        struct binadei_stream_state *stream_state)
{
    /* relaxed: a look. */
    if (atomic_load_explicit(&stream_state->depot_bytes, memory_order_relaxed))
        binadei_depot_drain(thread_state, stream_state);
}

void binadei_thread_state_empty(struct binadei_thread_state *thread_state)
{
    for (struct binadei_cache *cache = thread_state->caches; cache;
         cache = cache->next)
        /* What there is no bundle for stays. */
        (void)binadei_cache_empty(thread_state, cache);
}

bool binadei_reclaim_own(struct binadei_call *call)
{
    struct binadei_engine *engine = call->engine;
    for (unsigned i = 0; i < binadei_stream_state_count(&engine->streams); i++)
        drain_depot(call->thread_state,
                    binadei_stream_state_at(&engine->streams, i));
    binadei_thread_state_empty(call->thread_state);
    binadei_buddy_drop_affinity(engine->streams.buddy,
                                &call->thread_state->affinity);
    return binadei_reclaim_done(call);
}

/* False: for want of memory some stays. */
static bool empty_abandoned(struct binadei_thread_state *by,
                            struct binadei_thread_state *abandoned)
{
    bool is_empty = true;
    for (struct binadei_cache *cache = abandoned->caches; cache;
         cache = cache->next)
        is_empty &= binadei_cache_empty(by, cache);
    binadei_buddy_drop_affinity(by->engine->streams.buddy,
                                &abandoned->affinity);
    return is_empty;
}

/* Everything of a thread state that no thread has. False: not now, for want of
 * memory, or because another thread holds a lock. */
static bool reclaim_adopt(struct binadei_thread_state *by,
                          struct binadei_thread_state *abandoned)
{
    if (!binadei_stream_state_try_close_of(&by->engine->streams, abandoned)) {
        by->postponed++;
        return false;
    }
    if (!empty_abandoned(by, abandoned))
        return false;
    while (abandoned->caches)
        if (!binadei_cache_try_drop(abandoned->caches))
            return false;
    return binadei_thread_state_try_drop(abandoned);
}

/* Up to `most` of a chain; what is left of it. */
static struct binadei_thread_state *
adopt_some(struct binadei_thread_state *by,
           struct binadei_thread_state *abandoned, unsigned most,
           bool *out_is_any)
{
    for (unsigned i = 0; abandoned && i < most; i++) {
        struct binadei_thread_state *next = abandoned->next_abandoned;
        if (reclaim_adopt(by, abandoned))
            *out_is_any = true;
        else
            binadei_abandoned_push(abandoned);
        abandoned = next;
    }
    return abandoned;
}

/* Everything of a chain of thread states that no thread has. A thread state
 * that cannot be adopted now goes to the pool's abandoned thread states. True:
 * some were. */
static bool adopt_all(struct binadei_thread_state *by,
                      struct binadei_thread_state *abandoned)
{
    bool is_any = false;
    (void)adopt_some(by, abandoned, UINT_MAX, &is_any);
    return is_any;
}

static struct binadei_thread_state *
take_abandoned(_Atomic(struct binadei_thread_state *) *stack)
{
    /* relaxed: a look. */
    if (!atomic_load_explicit(stack, memory_order_relaxed))
        return NULL;
    /* OR.acquire: all that the threads left behind. */
    struct binadei_thread_state *taken =
        atomic_exchange_explicit(stack, NULL, memory_order_acquire);
    BINADEI_STEP("abandoned.adopted");
    return taken;
}

/* Leaves a chain of thread states that no thread has to calls that are not
 * cheap anyhow, a few at a time. NULL is fine. */
static void return_abandoned(struct binadei_engine *engine,
                             struct binadei_thread_state *rest)
{
    struct binadei_thread_state *nobody = NULL;
    /* OR.release: what the threads left behind. relaxed: somebody else has left
     * some meanwhile, and ours go to the others. */
    if (!rest || atomic_compare_exchange_strong_explicit(
                     &engine->abandoned_rest, &nobody, rest,
                     memory_order_release, memory_order_relaxed))
        return;
    while (rest) {
        struct binadei_thread_state *next = rest->next_abandoned;
        binadei_abandoned_push(rest);
        rest = next;
    }
}

bool binadei_reclaim_abandoned(struct binadei_call *call)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_thread_state *left = take_abandoned(&engine->abandoned_rest);
    struct binadei_thread_state *abandoned = take_abandoned(&engine->abandoned);
    if (!left && !abandoned)
        return false;
    bool is_any = adopt_all(call->thread_state, left);
    return adopt_all(call->thread_state, abandoned) || is_any;
}

void binadei_reclaim_some_abandoned(struct binadei_call *call)
{
    struct binadei_engine *engine = call->engine;
    bool is_any = false;
    struct binadei_thread_state *abandoned =
        take_abandoned(&engine->abandoned_rest);
    if (!abandoned)
        abandoned = take_abandoned(&engine->abandoned);
    if (abandoned)
        return_abandoned(engine, adopt_some(call->thread_state, abandoned,
                                            ABANDONED_AT_ONCE, &is_any));
}

/* The caches of other threads. A call that needs memory asks all of the pool's
 * threads for their caches, and takes those of threads that are outside: each
 * becomes an abandoned thread state, as if its thread had ended, and the thread
 * makes a new one when it comes back. A thread that is inside finds out at its
 * next call, and gives its caches' contents up by itself. Nobody waits for
 * anybody.
 *
 * Owner: inside = 1; look at `revocation`. Taker: revocation |= ASKED; barrier
 * in all threads; look at `inside`; revocation: ASKED -> TAKEN by a swap.
 * Either the owner's look finds ASKED, takes it back by a swap of its own, and
 * only one of the two swaps succeeds; or the taker's look finds the owner
 * inside. An owner pays a store and a load for this, no fence: the taker's
 * barrier stands for it. */

static bool steal_is_full(const struct binadei_cache *cache)
{
    for (uint32_t i = binadei_cache_next_in_use(cache, 0); i < BINADEI_CLASSES;
         i = binadei_cache_next_in_use(cache, i + 1))
        if (binadei_magazine_count(&cache->magazines[i]))
            return true;
    return false;
}

/* The registry's lock held. */
static bool holds_any(const struct binadei_thread_state *thread_state)
{
    const struct binadei_cache *cache = thread_state->caches;
    while (cache && !steal_is_full(cache))
        cache = cache->next;
    return cache != NULL;
}

/* Whether its thread has used no cache since this was asked last. The registry's
 * lock held. */
static bool is_resting(struct binadei_thread_state *thread_state)
{
    uint64_t activity = 0;
    for (const struct binadei_cache *cache = thread_state->caches; cache;
         cache = cache->next)
        activity += binadei_cache_activity(cache);
    bool rests = activity == thread_state->seen_activity;
    thread_state->seen_activity = activity;
    return rests;
}

/* The registry's lock held. */
static bool is_asked(struct binadei_thread_state *thread_state,
                     const struct binadei_thread_state *by, bool is_any_meant)
{
    if (thread_state == by || !thread_state->thread ||
        !(is_any_meant || is_resting(thread_state)) || !holds_any(thread_state))
        return false;
    /* CL, relaxed: an owner who sees ASKED sees this. */
    atomic_store_explicit(&thread_state->is_wanted, true, memory_order_relaxed);
    /* CL.seq_cst: before the barrier. */
    (void)atomic_fetch_or_explicit(&thread_state->thread->revocation,
                                   BINADEI_REVOKE_ASKED, memory_order_seq_cst);
    return true;
}

/* A full barrier in all running threads. Where the kernel has none, each thread
 * has its own: see BINADEI_REVOKE_FENCED. */
static bool steal_pass_barrier(void)
{
    return !binadei_barrier_is_there() || binadei_barrier_all();
}

static bool is_outside(const struct binadei_thread_state *thread_state)
{
    const struct binadei_thread *thread = thread_state->thread;
    /* OU.acquire: what the thread did with its caches. CL.seq_cst: after the
     * barrier. First whether it is inside, since it is inside before it stops
     * serving or calling back. */
    return !atomic_load_explicit(&thread->is_inside, memory_order_seq_cst) &&
           !binadei_thread_serving(thread) &&
           !atomic_load_explicit(&thread_state->is_calling_back,
                                 memory_order_acquire);
}

/* False: the owner took it back. */
static bool steal_take(struct binadei_thread *thread)
{
    /* relaxed: only the start of the loop. */
    uint32_t seen =
        atomic_load_explicit(&thread->revocation, memory_order_relaxed);
    uint32_t taken;
    do {
        if (!(seen & BINADEI_REVOKE_ASKED))
            return false;
        taken = (seen & ~BINADEI_REVOKE_ASKED) | BINADEI_REVOKE_TAKEN;
        /* CL.release: an owner who sees TAKEN finds the thread state gone. */
    } while (!atomic_compare_exchange_weak_explicit(&thread->revocation, &seen,
                                                    taken, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return true;
}

/* The thread states of threads that are outside, of any or of those that rest,
 * a chain of abandoned thread states; the registry's lock held, so that no
 * thread ends and nobody else asks. */
static struct binadei_thread_state *
take_thread_states(struct binadei_engine *engine,
                   struct binadei_thread_state *by, bool is_any_meant)
{
    struct binadei_thread_state *taken = NULL;
    bool is_any_asked = false;
    for (struct binadei_thread_state *thread_state = engine->thread_states;
         thread_state; thread_state = thread_state->of_pool)
        is_any_asked |= is_asked(thread_state, by, is_any_meant);
    if (!is_any_asked)
        return NULL;
    bool is_barred = steal_pass_barrier();
    for (struct binadei_thread_state *thread_state = engine->thread_states;
         thread_state; thread_state = thread_state->of_pool) {
        if (thread_state == by || !thread_state->thread)
            continue;
        if (!is_barred || !is_outside(thread_state) ||
            !steal_take(thread_state->thread)) {
            /* Not yet; so nothing is proved by not finding it. */
            by->postponed += holds_any(thread_state);
            continue;
        }
        /* What its thread may still ask for. */
        if (thread_state->oom.status)
            thread_state->thread->left_oom = thread_state->oom;
        binadei_thread_state_unlink(thread_state);
        thread_state->next_abandoned = taken;
        taken = thread_state;
    }
    return taken;
}

bool binadei_steal_caches_at_times(struct binadei_call *call)
{
    _Atomic uint64_t *next_ns = &call->engine->next_steal_ns;
    uint64_t now_ns = binadei_now_ns();
    /* relaxed: advice. */
    if (now_ns < atomic_load_explicit(next_ns, memory_order_relaxed))
        return false;
    /* relaxed: advice. */
    atomic_store_explicit(next_ns, now_ns + PAUSE_NS, memory_order_relaxed);
    return binadei_steal_caches(call);
}

bool binadei_steal_caches(struct binadei_call *call)
{
    binadei_registry_lock();
    struct binadei_thread_state *taken =
        take_thread_states(call->engine, call->thread_state, true);
    binadei_registry_unlock();
    BINADEI_STEP("steal.taken");
    return adopt_all(call->thread_state, taken);
}

void binadei_reclaim_cached(struct binadei_call *call, bool asks_others)
{
    (void)binadei_reclaim_abandoned(call);
    (void)binadei_reclaim_own(call);
    if (asks_others && binadei_steal_caches(call))
        (void)binadei_reclaim_done(call);
}

void binadei_steal_resting_caches(struct binadei_call *call)
{
    struct binadei_engine *engine = call->engine;
    _Atomic uint64_t *next_ns = &engine->next_rest_ns;
    if (!call->thread_state->is_refused)
        return;
    call->thread_state->is_refused = false;
    uint64_t now_ns = binadei_now_ns();
    /* relaxed: advice. One looks at a time: who has just been seen is not to be
     * seen again at once. */
    uint64_t seen_ns = atomic_load_explicit(next_ns, memory_order_relaxed);
    /* relaxed, also where it fails: then another one looks. */
    if (now_ns < seen_ns || !atomic_compare_exchange_strong_explicit(
                                next_ns, &seen_ns, UINT64_MAX,
                                memory_order_relaxed, memory_order_relaxed))
        return;
    binadei_registry_lock();
    struct binadei_thread_state *taken =
        take_thread_states(engine, call->thread_state, false);
    binadei_registry_unlock();
    return_abandoned(engine, taken);
    uint64_t pause_ns = LOOKS_PART * (binadei_now_ns() - now_ns);
    /* relaxed: advice. */
    atomic_store_explicit(next_ns,
                          now_ns + (pause_ns > REST_NS ? pause_ns : REST_NS),
                          memory_order_relaxed);
}

bool binadei_hand_over(struct binadei_call *call,
                       const struct binadei_request *request,
                       binade_devptr *out)
{
    const struct binadei_stream_user user = binadei_call_user(call);
    if (call->pop != call->push ||
        call->pop->stream_state->kind < BINADEI_STREAM_STATE_STREAM)
        return false;
    (void)binadei_epochs_close_all(&user);
    for (unsigned i = 0; i < binadei_stream_state_count(user.streams); i++) {
        if (binadei_epoch_hand_over(&user,
                                    binadei_stream_state_at(user.streams, i)) &&
            binadei_take(call, request, out))
            return true;
    }
    return false;
}
