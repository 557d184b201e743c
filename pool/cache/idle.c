/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The caches of other threads. A call that needs memory asks all of the pool's
 * threads for their caches, and takes those of threads that are outside: each
 * becomes an orphan, as if its thread had ended, and the thread makes a new one
 * when it comes back. A thread that is inside finds out at its next call, and
 * gives its caches' contents up by itself. Nobody waits for anybody.
 *
 * Owner:  inside = 1;  look at `claim`.     Taker:  claim |= ASKED;  barrier in
 * all threads;  look at `inside`;  claim: ASKED -> TAKEN by a swap. Either the
 * owner's look finds ASKED, takes it back by a swap of its own, and only one of
 * the two swaps succeeds; or the taker's look finds the owner inside. An owner
 * pays a store and a load for this, no fence: the taker's barrier stands for it.
 */
#include "pool/base/barrier.h"
#include "pool/base/clock.h"
#include "pool/base/step.h"
#include "pool/cache/cache.h"
#include "pool/cache/magazine.h"
#include "pool/cache/reclaim.h"
#include "pool/cache/registry.h"

/* Thousands of hits. */
#define PAUSE_NS UINT64_C(1000000)
/* A thread rests that has used no cache for so long, which is also how often one
 * looks; and the part of all time that looks may take. */
#define REST_NS UINT64_C(10000000)
#define LOOKS_PART 50U

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
    return binadei_adopt_all(call->member, taken);
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
    binadei_leave_orphans(engine, taken);
    uint64_t pause_ns = LOOKS_PART * (binadei_now_ns() - now_ns);
    /* relaxed: advice. */
    atomic_store_explicit(next_ns,
                          now_ns + (pause_ns > REST_NS ? pause_ns : REST_NS),
                          memory_order_relaxed);
}
