/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What an allocation can get back before it fails. Each step says whether it
 * made anything free; their order is the facade's.
 */
#include "pool/cache/reclaim.h"

#include <limits.h>

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
    binadei_buddy_leave_home(engine->buddy, &call->member->home);
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
    binadei_buddy_leave_home(by->engine->buddy, &orphan->home);
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

bool binadei_adopt_all(struct binadei_member *by, struct binadei_member *orphan)
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

void binadei_leave_orphans(struct binadei_engine *engine,
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
    bool is_any = binadei_adopt_all(call->member, left);
    return binadei_adopt_all(call->member, orphans) || is_any;
}

void binadei_reclaim_some_orphans(struct binadei_call *call)
{
    struct binadei_engine *engine = call->engine;
    bool is_any = false;
    struct binadei_member *orphans = take_orphans(&engine->left_orphans);
    if (!orphans)
        orphans = take_orphans(&engine->orphans);
    if (orphans)
        binadei_leave_orphans(engine, adopt_some(call->member, orphans,
                                                 ORPHANS_AT_ONCE, &is_any));
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
