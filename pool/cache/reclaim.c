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

/* Each new thread and each miss adopts the caches of at most so many ended
 * threads: more than one, so that their number falls, and few, so that no call
 * is long. */
#define ABANDONED_AT_ONCE 8U
/* Thousands of hits. */
#define PAUSE_NS UINT64_C(1000000)
/* A thread rests if it has used no cache for so long, and one looks as often;
 * and the part of all time that looks may take. */
#define REST_NS UINT64_C(10000000)
#define LOOKS_PART 50U

/* While the pool may grow, streams keep what they freed: if their epochs were
 * closed, they would take the memory back. Epochs are closed if that memory is
 * more than half of the pool; or, in mapped pools, whose free pieces can move
 * to any stream, if other streams have more than an eighth. */
#define LEFT_PART 2U
#define MAPPED_LEFT_PART 8U

/* Bytes that wait for events and that the call may not take before. */
static uint64_t others_bytes(const struct moietyi_call *call)
{
    const struct moietyi_heap *own = moietyi_call_view(call).heap;
    uint64_t all_bytes = moietyi_epochs_bytes(&call->engine->streams);
    uint64_t own_bytes = (moietyi_heap_grains(own, MOIETYI_FRESH) +
                          moietyi_heap_grains(own, MOIETYI_AGEING)) *
                         MOIETYI_GRAIN_BYTES;
    return all_bytes > own_bytes ? all_bytes - own_bytes : 0;
}

static bool is_worth_closing(const struct moietyi_call *call)
{
    const struct moietyi_segments *segments = call->engine->segments;
    uint64_t reserved = moietyi_segments_reserved_bytes(segments);
    if (call->is_pressed)
        return true;
    return moietyi_segments_are_mapped(segments)
               ? MAPPED_LEFT_PART * others_bytes(call) > reserved
               : LEFT_PART * moietyi_epochs_bytes(&call->engine->streams) >
                     reserved;
}

/* Counts grains that became done. */
static bool count_given(struct moietyi_call *call, uint64_t grains)
{
    call->thread_state->given_bytes += grains * MOIETYI_GRAIN_BYTES;
    return grains != 0;
}

static bool drain_done(struct moietyi_call *call,
                       const struct moietyi_stream_user *user)
{
    return count_given(call, moietyi_epochs_poll(user));
}

/* Drains what is behind events in flight, the call's own or other threads', if
 * they are over soon. `is_recorded`: one of them is the call's. On an idle
 * context an event is over in some microseconds, which is worth a few looks
 * before the driver is asked for more memory. */
static bool await_done(struct moietyi_call *call,
                       const struct moietyi_stream_user *user, bool is_recorded)
{
    bool is_any = drain_done(call, user);
    uint64_t waited_ns = 0;
    while (!is_any && call->may_wait &&
           (is_recorded || moietyi_epochs_are_in_flight(user->streams)) &&
           moietyi_wait_briefly(&waited_ns))
        is_any = drain_done(call, user);
    return is_any;
}

bool moietyi_reclaim_done(struct moietyi_call *call)
{
    const struct moietyi_stream_user user = moietyi_call_user(call);
    bool is_any = drain_done(call, &user);
    if (!is_worth_closing(call))
        return is_any;
    bool is_recorded = moietyi_epochs_close_all(&user);
    if (!is_recorded && !call->is_pressed)
        return is_any;
    if (!is_any)
        return await_done(call, &user, is_recorded);
    (void)drain_done(call, &user);
    return true;
}

bool moietyi_reclaim_poll(struct moietyi_call *call)
{
    const struct moietyi_stream_user user = moietyi_call_user(call);
    return drain_done(call, &user);
}

/* The places that handles left are used again after an event, so one is
 * recorded here. */
static void ask_for_left(struct moietyi_call *call)
{
    const struct moietyi_stream_user user = moietyi_call_user(call);
    uint64_t number = moietyi_segments_left_at(
        call->engine->segments, moietyi_epochs_passed(&call->engine->streams));
    struct moietyi_section section;
    if (!number || moietyi_context_enter(call->engine->streams.own_context,
                                         &section) != MOIETY_OK)
        return;
    (void)moietyi_epochs_have_passed(&user, number);
    (void)moietyi_section_leave(&section);
}

moiety_status moietyi_extend_for(struct moietyi_call *call,
                                 uint64_t needed_bytes)
{
    const struct moietyi_streams *streams = &call->engine->streams;
    const struct moietyi_view view = moietyi_call_view(call);
    ask_for_left(call);
    const struct moietyi_extension extension = {
        .needed_bytes = needed_bytes,
        .view = &view,
        .passed_epoch = moietyi_epochs_passed(streams),
        /* A graph would keep using the old place. */
        .next_epoch = streams->driver->cuCtxRecordEvent && !call->is_capturing
                          ? moietyi_epochs_next
                          : NULL,
        .streams = streams};
    return moietyi_segments_extend(call->engine->segments, &extension);
}

moiety_status moietyi_trim_for(struct moietyi_call *call, uint64_t keep_bytes,
                               uint64_t *out_bytes)
{
    return moietyi_trim_by(call, keep_bytes, NULL, out_bytes);
}

moiety_status moietyi_trim_by(struct moietyi_call *call, uint64_t keep_bytes,
                              const struct moietyi_release_rule *rule,
                              uint64_t *out_bytes)
{
    struct moietyi_segments *segments = call->engine->segments;
    ask_for_left(call);
    moietyi_segments_unmap_left(segments,
                                moietyi_epochs_passed(&call->engine->streams));
    return moietyi_segments_trim(segments, keep_bytes, rule, out_bytes);
}

moiety_status moietyi_trim_unwatched(struct moietyi_call *call,
                                     const struct moietyi_release_rule *rule,
                                     uint64_t *out_bytes)
{
    ask_for_left(call);
    return moietyi_segments_trim_unwatched(
        call->engine->segments, moietyi_epochs_passed(&call->engine->streams),
        rule, out_bytes);
}

bool moietyi_reclaim_is_device_idle(struct moietyi_call *call)
{
    const struct moietyi_stream_user user = moietyi_call_user(call);
    struct moietyi_section section;
    uint64_t number = moietyi_epochs_next(user.streams);
    if (moietyi_context_enter(user.streams->own_context, &section) != MOIETY_OK)
        return false;
    bool is_idle = moietyi_epochs_have_passed(&user, number);
    uint64_t waited_ns = 0;
    while (!is_idle && moietyi_epochs_are_recorded(user.streams, number) &&
           moietyi_wait_briefly(&waited_ns))
        is_idle = moietyi_epochs_have_passed(&user, number);
    (void)moietyi_section_leave(&section);
    return is_idle;
}

void moietyi_reclaim_own_stream(struct moietyi_call *call)
{
    const struct moietyi_stream_user user = moietyi_call_user(call);
    moietyi_epochs_close_own(&user);
}

void moietyi_reclaim_before_capture(struct moietyi_call *call)
{
    const struct moietyi_stream_user user = moietyi_call_user(call);
    if (call->is_capturing)
        return;
    moietyi_cache_empty(call->thread_state, call->push);
    moietyi_epochs_record_own(&user);
}

bool moietyi_reclaim_idle_streams(struct moietyi_call *call)
{
    struct moietyi_streams *streams = &call->engine->streams;
    struct moietyi_section section;
    if (moietyi_capture_guard_is_held() ||
        !moietyi_epochs_are_pending(streams) ||
        moietyi_context_enter(streams->own_context, &section) != MOIETY_OK)
        return false;
    uint64_t grains = moietyi_epochs_ask_streams(streams);
    grains += moietyi_uses_ask(call->thread_state);
    (void)moietyi_section_leave(&section);
    return count_given(call, grains);
}

bool moietyi_reclaim_synchronise(struct moietyi_call *call)
{
    const struct moietyi_stream_user user = moietyi_call_user(call);
    return count_given(call, moietyi_epochs_synchronise(&user));
}

void moietyi_thread_state_empty(struct moietyi_thread_state *thread_state)
{
    for (struct moietyi_cache *cache = thread_state->caches; cache;
         cache = cache->next)
        moietyi_cache_empty(thread_state, cache);
}

bool moietyi_reclaim_own(struct moietyi_call *call)
{
    moietyi_thread_state_empty(call->thread_state);
    return moietyi_reclaim_done(call);
}

static void empty_abandoned(struct moietyi_thread_state *by,
                            struct moietyi_thread_state *abandoned)
{
    for (struct moietyi_cache *cache = abandoned->caches; cache;
         cache = cache->next)
        moietyi_cache_empty(by, cache);
}

/* Takes everything of an abandoned thread state. False: not now, because
 * another thread holds a lock. */
static bool reclaim_adopt(struct moietyi_thread_state *by,
                          struct moietyi_thread_state *abandoned)
{
    if (!moietyi_stream_state_try_close_of(&by->engine->streams, abandoned)) {
        by->postponed++;
        return false;
    }
    empty_abandoned(by, abandoned);
    while (abandoned->caches)
        if (!moietyi_cache_try_drop(abandoned->caches))
            return false;
    return moietyi_thread_state_try_drop(abandoned);
}

/* Adopts up to `most` of a chain; returns the rest. */
static struct moietyi_thread_state *
adopt_some(struct moietyi_thread_state *by,
           struct moietyi_thread_state *abandoned, unsigned most,
           bool *out_is_any)
{
    for (unsigned i = 0; abandoned && i < most; i++) {
        struct moietyi_thread_state *next = abandoned->next_abandoned;
        if (reclaim_adopt(by, abandoned))
            *out_is_any = true;
        else
            moietyi_abandoned_push(abandoned);
        abandoned = next;
    }
    return abandoned;
}

/* Adopts all of a chain of abandoned thread states. One that cannot be adopted
 * now goes back to the pool's stack. True: some were adopted. */
static bool adopt_all(struct moietyi_thread_state *by,
                      struct moietyi_thread_state *abandoned)
{
    bool is_any = false;
    (void)adopt_some(by, abandoned, UINT_MAX, &is_any);
    return is_any;
}

static struct moietyi_thread_state *
take_abandoned(_Atomic(struct moietyi_thread_state *) *stack)
{
    /* relaxed: a look. */
    if (!atomic_load_explicit(stack, memory_order_relaxed))
        return NULL;
    /* OR.acquire: all that the threads left behind. */
    struct moietyi_thread_state *taken =
        atomic_exchange_explicit(stack, NULL, memory_order_acquire);
    MOIETYI_STEP("abandoned.adopted");
    return taken;
}

/* Leaves a chain of abandoned thread states to calls that are not cheap anyway,
 * a few at a time. NULL is fine. */
static void return_abandoned(struct moietyi_engine *engine,
                             struct moietyi_thread_state *rest)
{
    struct moietyi_thread_state *nobody = NULL;
    /* OR.release: what the threads left behind. relaxed: another thread has
     * left some meanwhile, and ours join the stack. */
    if (!rest || atomic_compare_exchange_strong_explicit(
                     &engine->abandoned_rest, &nobody, rest,
                     memory_order_release, memory_order_relaxed))
        return;
    while (rest) {
        struct moietyi_thread_state *next = rest->next_abandoned;
        moietyi_abandoned_push(rest);
        rest = next;
    }
}

bool moietyi_reclaim_abandoned(struct moietyi_call *call)
{
    struct moietyi_engine *engine = call->engine;
    struct moietyi_thread_state *left = take_abandoned(&engine->abandoned_rest);
    struct moietyi_thread_state *abandoned = take_abandoned(&engine->abandoned);
    if (!left && !abandoned)
        return false;
    bool is_any = adopt_all(call->thread_state, left);
    return adopt_all(call->thread_state, abandoned) || is_any;
}

void moietyi_reclaim_some_abandoned(struct moietyi_call *call)
{
    struct moietyi_engine *engine = call->engine;
    bool is_any = false;
    struct moietyi_thread_state *abandoned =
        take_abandoned(&engine->abandoned_rest);
    if (!abandoned)
        abandoned = take_abandoned(&engine->abandoned);
    if (abandoned)
        return_abandoned(engine, adopt_some(call->thread_state, abandoned,
                                            ABANDONED_AT_ONCE, &is_any));
}

/* The caches of other threads. A call that needs memory asks all threads of the
 * pool for their caches, and takes those of threads that are outside of calls.
 * Each such thread state is abandoned, as if its thread had ended, and the
 * thread makes a new one at its next call. A thread that is inside empties its
 * caches itself, at its next call. No thread waits for another.
 *
 * Owner: inside = 1; look at `revocation`. Taker: revocation |= ASKED; barrier
 * in all threads; look at `inside`; revocation: ASKED -> TAKEN by a swap.
 *
 * Either the owner's look finds ASKED, takes it back by a swap of its own, and
 * only one of the two swaps succeeds; or the taker's look finds the owner
 * inside. An owner pays a store and a load for this, no fence: the taker's
 * barrier stands for it. */

static bool steal_is_full(const struct moietyi_cache *cache)
{
    for (uint32_t i = moietyi_cache_next_in_use(cache, 0); i < MOIETYI_CLASSES;
         i = moietyi_cache_next_in_use(cache, i + 1))
        if (moietyi_magazine_count(&cache->magazines[i]))
            return true;
    return false;
}

/* The registry's lock held. */
static bool holds_any(const struct moietyi_thread_state *thread_state)
{
    const struct moietyi_cache *cache = thread_state->caches;
    while (cache && !steal_is_full(cache))
        cache = cache->next;
    return cache != NULL;
}

/* Whether the thread's magazines have room, even if they are empty, and it has
 * used no cache since the last call. The registry's lock held. */
static bool is_resting(struct moietyi_thread_state *thread_state)
{
    uint64_t activity = 0;
    bool has_room = false;
    for (const struct moietyi_cache *cache = thread_state->caches; cache;
         cache = cache->next) {
        activity += moietyi_cache_activity(cache);
        has_room |= moietyi_cache_next_in_use(cache, 0) < MOIETYI_CLASSES;
    }
    bool rests = has_room && activity == thread_state->seen_activity;
    thread_state->seen_activity = activity;
    return rests;
}

/* The registry's lock held. */
static bool is_asked(struct moietyi_thread_state *thread_state,
                     const struct moietyi_thread_state *by, bool is_any_meant)
{
    if (thread_state == by || !thread_state->thread ||
        !(is_any_meant ? holds_any(thread_state) : is_resting(thread_state)))
        return false;
    /* CL, relaxed: an owner who sees ASKED sees this. */
    atomic_store_explicit(&thread_state->is_wanted, true, memory_order_relaxed);
    /* CL.seq_cst: before the barrier. */
    (void)atomic_fetch_or_explicit(&thread_state->thread->revocation,
                                   MOIETYI_REVOKE_ASKED, memory_order_seq_cst);
    return true;
}

/* A full barrier in all running threads. Where the kernel has none, each thread
 * has its own: see MOIETYI_REVOKE_FENCED. */
static bool steal_pass_barrier(void)
{
    return !moietyi_barrier_is_there() || moietyi_barrier_all();
}

static bool is_outside(const struct moietyi_thread_state *thread_state)
{
    const struct moietyi_thread *thread = thread_state->thread;
    /* OU.acquire: what the thread did with its caches. CL.seq_cst: after the
     * barrier. `is_inside` first: a thread is inside before it leaves a source
     * or a callback. */
    return !atomic_load_explicit(&thread->is_inside, memory_order_seq_cst) &&
           !moietyi_thread_serving(thread) &&
           !atomic_load_explicit(&thread_state->is_calling_back,
                                 memory_order_acquire);
}

/* False: the owner took the request back. */
static bool steal_take(struct moietyi_thread *thread)
{
    /* relaxed: only the start of the loop. */
    uint32_t seen =
        atomic_load_explicit(&thread->revocation, memory_order_relaxed);
    uint32_t taken;
    do {
        if (!(seen & MOIETYI_REVOKE_ASKED))
            return false;
        taken = (seen & ~MOIETYI_REVOKE_ASKED) | MOIETYI_REVOKE_TAKEN;
        /* CL.release: an owner who sees TAKEN finds the thread state gone. */
    } while (!atomic_compare_exchange_weak_explicit(&thread->revocation, &seen,
                                                    taken, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return true;
}

/* Takes the thread states of threads that are outside, of all or of resting
 * threads, as a chain of abandoned ones. The registry's lock held, so that no
 * thread ends and no other thread asks. */
static struct moietyi_thread_state *
take_thread_states(struct moietyi_engine *engine,
                   struct moietyi_thread_state *by, bool is_any_meant)
{
    struct moietyi_thread_state *taken = NULL;
    bool is_any_asked = false;
    for (struct moietyi_thread_state *thread_state = engine->thread_states;
         thread_state; thread_state = thread_state->of_pool)
        is_any_asked |= is_asked(thread_state, by, is_any_meant);
    if (!is_any_asked)
        return NULL;
    bool is_barred = steal_pass_barrier();
    for (struct moietyi_thread_state *thread_state = engine->thread_states;
         thread_state; thread_state = thread_state->of_pool) {
        if (thread_state == by || !thread_state->thread)
            continue;
        if (!is_barred || !is_outside(thread_state) ||
            !steal_take(thread_state->thread)) {
            /* Not yet, so a search that finds nothing proves nothing. */
            by->postponed += holds_any(thread_state);
            continue;
        }
        /* The report that its thread may still ask for. */
        if (thread_state->oom.status)
            thread_state->thread->left_oom = thread_state->oom;
        moietyi_thread_state_unlink(thread_state);
        thread_state->next_abandoned = taken;
        taken = thread_state;
    }
    return taken;
}

bool moietyi_steal_caches_at_times(struct moietyi_call *call)
{
    _Atomic uint64_t *next_ns = &call->engine->next_steal_ns;
    uint64_t now_ns = moietyi_now_ns();
    /* relaxed: advice. */
    if (now_ns < atomic_load_explicit(next_ns, memory_order_relaxed))
        return false;
    /* relaxed: advice. */
    atomic_store_explicit(next_ns, now_ns + PAUSE_NS, memory_order_relaxed);
    return moietyi_steal_caches(call);
}

bool moietyi_steal_caches(struct moietyi_call *call)
{
    moietyi_registry_lock();
    struct moietyi_thread_state *taken =
        take_thread_states(call->engine, call->thread_state, true);
    moietyi_registry_unlock();
    MOIETYI_STEP("steal.taken");
    return adopt_all(call->thread_state, taken);
}

void moietyi_reclaim_cached(struct moietyi_call *call, bool asks_others)
{
    (void)moietyi_reclaim_abandoned(call);
    (void)moietyi_reclaim_own(call);
    if (asks_others && moietyi_steal_caches(call))
        (void)moietyi_reclaim_done(call);
}

void moietyi_steal_resting_caches(struct moietyi_call *call)
{
    struct moietyi_engine *engine = call->engine;
    _Atomic uint64_t *next_ns = &engine->next_rest_ns;
    if (!call->thread_state->is_refused)
        return;
    call->thread_state->is_refused = false;
    uint64_t now_ns = moietyi_now_ns();
    /* relaxed: advice. One thread looks at a time, so that no thread is seen
     * twice in a row. */
    uint64_t seen_ns = atomic_load_explicit(next_ns, memory_order_relaxed);
    /* relaxed, also if it fails: then another thread looks. */
    if (now_ns < seen_ns || !atomic_compare_exchange_strong_explicit(
                                next_ns, &seen_ns, UINT64_MAX,
                                memory_order_relaxed, memory_order_relaxed))
        return;
    moietyi_registry_lock();
    struct moietyi_thread_state *taken =
        take_thread_states(engine, call->thread_state, false);
    moietyi_registry_unlock();
    return_abandoned(engine, taken);
    uint64_t pause_ns = LOOKS_PART * (moietyi_now_ns() - now_ns);
    /* relaxed: advice. */
    atomic_store_explicit(next_ns,
                          now_ns + (pause_ns > REST_NS ? pause_ns : REST_NS),
                          memory_order_relaxed);
}

bool moietyi_hand_over(struct moietyi_call *call,
                       const struct moietyi_request *request,
                       moiety_devptr *out)
{
    const struct moietyi_stream_user user = moietyi_call_user(call);
    if (call->pop != call->push ||
        call->pop->stream_state->kind < MOIETYI_STREAM_STATE_STREAM)
        return false;
    (void)moietyi_epochs_close_all(&user);
    for (unsigned i = 0; i < moietyi_stream_state_count(user.streams); i++) {
        if (moietyi_epoch_hand_over(&user,
                                    moietyi_stream_state_at(user.streams, i)) &&
            moietyi_take(call, request, out))
            return true;
    }
    return false;
}
