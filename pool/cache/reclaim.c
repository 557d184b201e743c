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
#include "pool/stream/epoch.h"
#include "pool/stream/guard.h"
#include "pool/stream/slot.h"

/* An event on a context that has nothing to do is over in some microseconds:
 * that is worth waiting for before the driver is asked for more memory. */
#define RECORD_NS 10000L
/* Each thread that comes, and each miss, takes over what so many ended ones left:
 * more than one, so that they become fewer, and few, so that no call is long. */
#define ORPHANS_AT_ONCE 8U
/* Thousands of hits. */
#define PAUSE_NS UINT64_C(1000000)
/* A thread rests that has used no cache for so long, which is also how often one
 * looks; and the part of all time that looks may take. */
#define REST_NS UINT64_C(10000000)
#define LOOKS_PART 50U

/* While the pool may grow, what streams freed is left to them: closing their
 * epochs takes it from them all, and they would take it back. Unless that is more
 * than half of the pool. */
static bool is_worth_closing(const struct binadei_call *call)
{
    return call->is_pressed ||
           2 * binadei_epochs_bytes(&call->engine->streams) >
               binadei_segments_reserved_bytes(call->engine->segments);
}

/* Grains that became done. */
static bool count_given(struct binadei_call *call, uint64_t grains)
{
    call->member->given_bytes += grains * BINADEI_GRAIN_BYTES;
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
    binadei_depot_drain(call->member, call->push->slot);
    (void)binadei_cache_empty(call->member, call->push);
    binadei_epochs_record_own(&user);
}

bool binadei_reclaim_idle_streams(struct binadei_call *call)
{
    struct binadei_streams *streams = &call->engine->streams;
    struct binadei_section section;
    if (binadei_guard_is_held() || !binadei_epochs_are_pending(streams) ||
        binadei_context_enter(streams->home, &section) != BINADE_OK)
        return false;
    uint64_t grains = binadei_epochs_ask_streams(streams);
    grains += binadei_uses_ask(call->member);
    (void)binadei_section_leave(&section);
    return count_given(call, grains);
}

bool binadei_reclaim_synchronise(struct binadei_call *call)
{
    const struct binadei_stream_user user = binadei_call_user(call);
    return count_given(call, binadei_epochs_synchronise(&user));
}

/* Depots are all threads', so also the caller's. */
static void drain_depot(struct binadei_member *member,
                        struct binadei_slot *slot)
{
    /* relaxed: a look. */
    if (atomic_load_explicit(&slot->depot_bytes, memory_order_relaxed))
        binadei_depot_drain(member, slot);
}

void binadei_member_empty(struct binadei_member *member)
{
    for (struct binadei_cache *cache = member->caches; cache;
         cache = cache->next)
        /* What there is no bundle for stays. */
        (void)binadei_cache_empty(member, cache);
}

bool binadei_reclaim_own(struct binadei_call *call)
{
    struct binadei_engine *engine = call->engine;
    for (unsigned i = 0; i < binadei_slot_count(&engine->streams); i++)
        drain_depot(call->member, binadei_slot_at(&engine->streams, i));
    binadei_member_empty(call->member);
    binadei_buddy_leave_home(engine->streams.buddy, &call->member->home);
    return binadei_reclaim_done(call);
}

/* False: for want of memory some stays. */
static bool empty_orphan(struct binadei_member *by,
                         struct binadei_member *orphan)
{
    bool is_empty = true;
    for (struct binadei_cache *cache = orphan->caches; cache;
         cache = cache->next)
        is_empty &= binadei_cache_empty(by, cache);
    binadei_buddy_leave_home(by->engine->streams.buddy, &orphan->home);
    return is_empty;
}

/* Everything of a member that no thread has. False: not now, for want of memory,
 * or because another thread holds a lock. */
static bool reclaim_adopt(struct binadei_member *by,
                          struct binadei_member *orphan)
{
    if (!binadei_slot_try_close_of(&by->engine->streams, orphan)) {
        by->postponed++;
        return false;
    }
    if (!empty_orphan(by, orphan))
        return false;
    while (orphan->caches)
        if (!binadei_cache_try_drop(orphan->caches))
            return false;
    return binadei_member_try_drop(orphan);
}

/* Up to `most` of a chain; what is left of it. */
static struct binadei_member *adopt_some(struct binadei_member *by,
                                         struct binadei_member *orphan,
                                         unsigned most, bool *out_is_any)
{
    for (unsigned i = 0; orphan && i < most; i++) {
        struct binadei_member *next = orphan->orphan;
        if (reclaim_adopt(by, orphan))
            *out_is_any = true;
        else
            binadei_orphan_push(orphan);
        orphan = next;
    }
    return orphan;
}

/* Everything of a chain of members that no thread has. A member that cannot be
 * adopted now goes to the pool's orphans. True: some were. */
static bool adopt_all(struct binadei_member *by, struct binadei_member *orphan)
{
    bool is_any = false;
    (void)adopt_some(by, orphan, UINT_MAX, &is_any);
    return is_any;
}

static struct binadei_member *
take_orphans(_Atomic(struct binadei_member *) *stack)
{
    /* relaxed: a look. */
    if (!atomic_load_explicit(stack, memory_order_relaxed))
        return NULL;
    /* OR.acquire: all that the threads left behind. */
    struct binadei_member *taken =
        atomic_exchange_explicit(stack, NULL, memory_order_acquire);
    BINADEI_STEP("orphan.adopted");
    return taken;
}

/* Leaves a chain of members that no thread has to calls that are not cheap anyhow,
 * a few at a time. NULL is fine. */
static void leave_orphans(struct binadei_engine *engine,
                          struct binadei_member *rest)
{
    struct binadei_member *nobody = NULL;
    /* OR.release: what the threads left behind. relaxed: somebody else has left
     * some meanwhile, and ours go to the others. */
    if (!rest || atomic_compare_exchange_strong_explicit(
                     &engine->left_orphans, &nobody, rest, memory_order_release,
                     memory_order_relaxed))
        return;
    while (rest) {
        struct binadei_member *next = rest->orphan;
        binadei_orphan_push(rest);
        rest = next;
    }
}

bool binadei_reclaim_orphans(struct binadei_call *call)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_member *left = take_orphans(&engine->left_orphans);
    struct binadei_member *orphans = take_orphans(&engine->orphans);
    if (!left && !orphans)
        return false;
    bool is_any = adopt_all(call->member, left);
    return adopt_all(call->member, orphans) || is_any;
}

void binadei_reclaim_some_orphans(struct binadei_call *call)
{
    struct binadei_engine *engine = call->engine;
    bool is_any = false;
    struct binadei_member *orphans = take_orphans(&engine->left_orphans);
    if (!orphans)
        orphans = take_orphans(&engine->orphans);
    if (orphans)
        leave_orphans(engine, adopt_some(call->member, orphans, ORPHANS_AT_ONCE,
                                         &is_any));
}

/* The caches of other threads. A call that needs memory asks all of the pool's
 * threads for their caches, and takes those of threads that are outside: each
 * becomes an orphan, as if its thread had ended, and the thread makes a new one
 * when it comes back. A thread that is inside finds out at its next call, and
 * gives its caches' contents up by itself. Nobody waits for anybody.
 *
 * Owner:  inside = 1;  look at `claim`.     Taker:  claim |= ASKED;  barrier in
 * all threads;  look at `inside`;  claim: ASKED -> TAKEN by a swap. Either the
 * owner's look finds ASKED, takes it back by a swap of its own, and only one of
 * the two swaps succeeds; or the taker's look finds the owner inside. An owner
 * pays a store and a load for this, no fence: the taker's barrier stands for it. */

static bool idle_is_full(const struct binadei_cache *cache)
{
    for (uint32_t i = binadei_cache_next_in_use(cache, 0); i < BINADEI_CLASSES;
         i = binadei_cache_next_in_use(cache, i + 1))
        if (binadei_magazine_count(&cache->magazines[i]))
            return true;
    return false;
}

/* The registry's lock held. */
static bool holds_any(const struct binadei_member *member)
{
    const struct binadei_cache *cache = member->caches;
    while (cache && !idle_is_full(cache))
        cache = cache->next;
    return cache != NULL;
}

/* Whether its thread has used no cache since this was asked last. The registry's
 * lock held. */
static bool is_resting(struct binadei_member *member)
{
    uint64_t activity = 0;
    for (const struct binadei_cache *cache = member->caches; cache;
         cache = cache->next)
        activity += binadei_cache_activity(cache);
    bool rests = activity == member->seen_activity;
    member->seen_activity = activity;
    return rests;
}

/* The registry's lock held. */
static bool is_asked(struct binadei_member *member,
                     const struct binadei_member *by, bool is_any_meant)
{
    if (member == by || !member->thread ||
        !(is_any_meant || is_resting(member)) || !holds_any(member))
        return false;
    /* CL, relaxed: an owner who sees ASKED sees this. */
    atomic_store_explicit(&member->is_wanted, true, memory_order_relaxed);
    /* CL.seq_cst: before the barrier. */
    (void)atomic_fetch_or_explicit(&member->thread->claim, BINADEI_CLAIM_ASKED,
                                   memory_order_seq_cst);
    return true;
}

/* A full barrier in all running threads. Where the kernel has none, each thread
 * has its own: see BINADEI_CLAIM_FENCED. */
static bool idle_pass_barrier(void)
{
    return !binadei_barrier_is_there() || binadei_barrier_all();
}

static bool is_outside(const struct binadei_member *member)
{
    const struct binadei_thread *thread = member->thread;
    /* OU.acquire: what the thread did with its caches. CL.seq_cst: after the
     * barrier. First whether it is inside, since it is inside before it stops
     * serving or calling back. */
    return !atomic_load_explicit(&thread->is_inside, memory_order_seq_cst) &&
           !binadei_thread_serving(thread) &&
           !atomic_load_explicit(&member->is_calling_back,
                                 memory_order_acquire);
}

/* False: the owner took it back. */
static bool idle_take(struct binadei_thread *thread)
{
    /* relaxed: only the start of the loop. */
    uint32_t seen = atomic_load_explicit(&thread->claim, memory_order_relaxed);
    uint32_t taken;
    do {
        if (!(seen & BINADEI_CLAIM_ASKED))
            return false;
        taken = (seen & ~BINADEI_CLAIM_ASKED) | BINADEI_CLAIM_TAKEN;
        /* CL.release: an owner who sees TAKEN finds the member gone. */
    } while (!atomic_compare_exchange_weak_explicit(&thread->claim, &seen,
                                                    taken, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return true;
}

/* The members of threads that are outside, of any or of those that rest, a chain
 * of orphans; the registry's lock held, so that no thread ends and nobody else
 * asks. */
static struct binadei_member *take_members(struct binadei_engine *engine,
                                           struct binadei_member *by,
                                           bool is_any_meant)
{
    struct binadei_member *taken = NULL;
    bool is_any_asked = false;
    for (struct binadei_member *member = engine->members; member;
         member = member->of_pool)
        is_any_asked |= is_asked(member, by, is_any_meant);
    if (!is_any_asked)
        return NULL;
    bool is_barred = idle_pass_barrier();
    for (struct binadei_member *member = engine->members; member;
         member = member->of_pool) {
        if (member == by || !member->thread)
            continue;
        if (!is_barred || !is_outside(member) || !idle_take(member->thread)) {
            /* Not yet; so nothing is proved by not finding it. */
            by->postponed += holds_any(member);
            continue;
        }
        /* What its thread may still ask for. */
        if (member->oom.status)
            member->thread->left_oom = member->oom;
        binadei_member_unlink(member);
        member->orphan = taken;
        taken = member;
    }
    return taken;
}

bool binadei_reclaim_idle_at_times(struct binadei_call *call)
{
    _Atomic uint64_t *next_ns = &call->engine->next_idle_ns;
    uint64_t now_ns = binadei_now_ns();
    /* relaxed: advice. */
    if (now_ns < atomic_load_explicit(next_ns, memory_order_relaxed))
        return false;
    /* relaxed: advice. */
    atomic_store_explicit(next_ns, now_ns + PAUSE_NS, memory_order_relaxed);
    return binadei_reclaim_idle(call);
}

bool binadei_reclaim_idle(struct binadei_call *call)
{
    binadei_registry_lock();
    struct binadei_member *taken =
        take_members(call->engine, call->member, true);
    binadei_registry_unlock();
    BINADEI_STEP("idle.taken");
    return adopt_all(call->member, taken);
}

void binadei_reclaim_resting(struct binadei_call *call)
{
    struct binadei_engine *engine = call->engine;
    _Atomic uint64_t *next_ns = &engine->next_rest_ns;
    if (!call->member->is_refused)
        return;
    call->member->is_refused = false;
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
    struct binadei_member *taken = take_members(engine, call->member, false);
    binadei_registry_unlock();
    leave_orphans(engine, taken);
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
    if (call->pop != call->push || call->pop->slot->kind < BINADEI_SLOT_STREAM)
        return false;
    (void)binadei_epochs_close_all(&user);
    for (unsigned i = 0; i < binadei_slot_count(user.streams); i++)
        if (binadei_epoch_hand_over(&user, binadei_slot_at(user.streams, i)) &&
            binadei_take(call, request, out))
            return true;
    return false;
}
