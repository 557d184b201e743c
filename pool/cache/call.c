/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The beginning of a call that is no hit: which caches serve it. The rule table
 * of docs/streams.md is decided here, by the choice of slots.
 */
#include "pool/base/cancel.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/cache/cache.h"
#include "pool/cache/gate.h"
#include "pool/cache/magazine.h"
#include "pool/cache/registry.h"
#include "pool/driver/section.h"
#include "pool/stream/epoch.h"
#include "pool/stream/event.h"
#include "pool/stream/slot.h"

static binade_status call_no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory for a thread's caches");
}

static bool is_named(binade_stream stream)
{
    return stream != BINADE_STREAM_ANY && stream != BINADE_STREAM_DONE;
}

/* The member's cache of a slot. `is_counted`: the caller counted itself as the
 * slot's user, which the cache is from now on. */
static struct binadei_cache *cache_of(struct binadei_member *member,
                                      struct binadei_slot *slot,
                                      bool is_counted)
{
    struct binadei_cache *cache = binadei_cache_find(member, slot);
    bool is_new = !cache;
    if (is_new)
        cache = binadei_cache_make(member, slot);
    if (is_counted && (!is_new || !cache))
        binadei_slot_unuse(slot);
    return cache;
}

static binade_status named_cache(struct binadei_member *member,
                                 binade_stream stream,
                                 struct binadei_cache **out)
{
    struct binadei_slot *slot;
    struct binadei_section section;
    binade_status status =
        binadei_context_enter(member->engine->streams.home, &section);
    if (status != BINADE_OK)
        return status;
    status = binadei_slot_use(&member->engine->streams, member, stream, &slot);
    (void)binadei_section_leave(&section);
    if (status != BINADE_OK)
        return status;
    *out = cache_of(member, slot, true);
    return *out ? BINADE_OK : call_no_memory();
}

/* The cache that takes a stream's freed blocks. NULL, and why. */
static struct binadei_cache *push_cache(struct binadei_member *member,
                                        binade_stream stream,
                                        binade_status *out_status)
{
    struct binadei_cache *cache = NULL;
    *out_status = BINADE_OK;
    if (stream == BINADE_STREAM_DONE)
        cache = member->done;
    else if (stream == BINADE_STREAM_ANY)
        cache = cache_of(member, member->engine->streams.any, false);
    else
        *out_status = named_cache(member, stream, &cache);
    if (!cache && *out_status == BINADE_OK)
        *out_status = call_no_memory();
    return cache;
}

/* What ANY freed serves nobody before its event. */
static struct binadei_cache *pop_cache(struct binadei_cache *push)
{
    return push->slot->kind == BINADEI_SLOT_ANY ? push->member->done : push;
}

/* Caches of streams that were retired: their blocks wait for the final event,
 * and the caches end. */
static void call_sweep(struct binadei_member *member, uint64_t attention)
{
    struct binadei_cache *next;
    bool is_swept = true;
    for (struct binadei_cache *cache = member->caches; cache; cache = next) {
        next = cache->next;
        if (!binadei_slot_is_closed(cache->slot))
            continue;
        binadei_thread_forget(member->thread, cache);
        is_swept &=
            binadei_cache_empty(member, cache) && binadei_cache_try_drop(cache);
    }
    if (is_swept)
        member->attention = attention;
}

/* What streams freed that were retired becomes everybody's as new streams come,
 * so that their slots can be used again. */
static void call_drain_closed(struct binadei_member *member)
{
    binadei_operation_begin(member);
    const struct binadei_stream_user user = binadei_member_user(member);
    member->given_bytes +=
        binadei_epochs_drain_closed(&user) * BINADEI_GRAIN_BYTES;
    binadei_operation_end(member);
}

/* The route, right for this moment. NULL, and why. */
static struct binadei_route *find_route(struct binadei_thread *thread,
                                        struct binade_pool *pool,
                                        binade_stream stream,
                                        binade_status *out_status)
{
    /* AT.acquire: a sweep for this value finds the slots closed. */
    uint64_t attention =
        atomic_load_explicit(&pool->attention, memory_order_acquire) &
        ~BINADEI_ATTENTION_FLAGS;
    struct binadei_route *route = binadei_thread_find(thread, pool, stream);
    *out_status = BINADE_OK;
    if (route && route->push && route->attention == attention)
        return route;
    /* A route knows the member without a lock. */
    struct binadei_member *member =
        route && route->push ? route->push->member
                             : binadei_member_of(thread, pool->engine);
    if (member && member->attention != attention) {
        binadei_operation_begin(member);
        call_sweep(member, attention);
        binadei_operation_end(member);
    }
    if (route && route->push && !binadei_slot_is_closed(route->push->slot)) {
        route->attention = attention;
        return route;
    }
    if (member && is_named(stream))
        call_drain_closed(member);
    struct binadei_cache *push =
        member ? push_cache(member, stream, out_status) : NULL;
    if (*out_status != BINADE_OK)
        return NULL;
    route = binadei_thread_find(thread, pool, stream);
    if (!route && push)
        route = binadei_thread_add(thread, pool, stream);
    if (!route || !push) {
        *out_status = call_no_memory();
        return NULL;
    }
    route->pop = pop_cache(push);
    route->push = push;
    route->note = member->engine->notes ? push->slot->note : 0;
    route->attention = attention;
    return route;
}

binade_status binadei_look_for_capture(const struct binadei_call *call,
                                       binade_stream stream,
                                       struct binadei_capture *out)
{
    struct binadei_section section;
    const struct binadei_engine *engine = call->engine;
    binade_status status =
        binadei_context_enter(engine->streams.home, &section);
    if (status != BINADE_OK)
        return status;
    status = binadei_capture_of(&engine->streams,
                                stream ? stream : BINADE_STREAM_LEGACY, out);
    (void)binadei_section_leave(&section);
    return status;
}

/* While a guard is held: does this stream capture? */
static binade_status look_for_capture(struct binadei_call *call,
                                      binade_stream stream)
{
    if (!(binadei_attention(call->pool) & BINADEI_ATTENTION_GUARD) ||
        !is_named(stream))
        return BINADE_OK;
    binade_status status =
        binadei_look_for_capture(call, stream, &call->capture);
    if (status != BINADE_OK)
        return status;
    /* The legacy stream is no part of a blocking stream's capture. Nothing can
     * be put on it meanwhile, so events for what it frees come later. */
    call->is_capturing = call->capture.kind >= BINADEI_CAPTURE_BROKEN;
    /* A graph may run at any time: nothing may be pending on its memory. */
    if (call->is_capturing)
        call->pop = call->member->done;
    return BINADE_OK;
}

/* The slot that a note stands for, if this thread may free on its stream: it is
 * counted as in use, and not retired before it was unpinned. Or NULL. */
static struct binadei_slot *pin_noted(const struct binadei_call *call,
                                      uint32_t note)
{
    struct binadei_slot *slot =
        note > BINADEI_NOTE_ANY
            ? binadei_slot_use_noted(&call->engine->streams, note)
            : NULL;
    bool is_own = slot && (slot->kind == BINADEI_SLOT_STREAM ||
                           slot->owner == call->member);
    if (is_own && binadei_slot_pin(slot))
        return slot;
    if (slot)
        binadei_slot_unuse(slot);
    return NULL;
}

binade_status binadei_call_turn(struct binadei_call *call, uint32_t note)
{
    struct binadei_slot *slot = pin_noted(call, note);
    struct binadei_cache *push = cache_of(
        call->member, slot ? slot : call->engine->streams.any, slot != NULL);
    if (!push) {
        if (slot)
            binadei_slot_unpin(slot);
        return call_no_memory();
    }
    call->pinned = slot;
    call->stream = slot ? slot->stream : BINADE_STREAM_ANY;
    call->push = push;
    call->pop = pop_cache(push);
    return BINADE_OK;
}

binade_status binadei_call_look(struct binadei_call *call)
{
    return look_for_capture(call, call->stream);
}

/* Whether others asked for what is in the caches, since the last look. */
static bool is_wanted(struct binadei_member *member)
{
    /* relaxed: it came with CL, or the next call sees it. */
    if (!atomic_load_explicit(&member->is_wanted, memory_order_relaxed))
        return false;
    /* relaxed: who asks later sets it again. */
    atomic_store_explicit(&member->is_wanted, false, memory_order_relaxed);
    return true;
}

static binade_status begin_on(struct binadei_call *call, binade_stream stream)
{
    binade_status status;
    struct binadei_route *route =
        find_route(call->thread, call->pool, stream, &status);
    if (!route)
        return status;
    call->engine = call->pool->engine;
    call->pop = route->pop;
    call->push = route->push;
    call->member = route->push->member;
    binadei_operation_begin(call->member);
    /* IN.seq_cst: once more, now that the thread that destroys the pool can see
     * the operation. */
    if (atomic_load_explicit(&call->pool->attention, memory_order_seq_cst) &
        BINADEI_ATTENTION_DEAD) {
        binadei_operation_end(call->member);
        return binadei_fail(BINADE_E_INVALID, "the pool was destroyed");
    }
    if (is_wanted(call->member))
        binadei_member_empty(call->member);
    binade_status looked = look_for_capture(call, stream);
    if (looked != BINADE_OK)
        binadei_operation_end(call->member);
    else if (call->member->is_new)
        binadei_reclaim_some_orphans(call);
    call->member->is_new &= looked != BINADE_OK;
    return looked;
}

/* In a pool whose context is gone no stream is left to be found; that it is
 * gone may be found out here. */
static binade_status call_begin(struct binadei_call *call, binade_stream stream)
{
    binade_status status = BINADE_OK;
    bool is_lost = binadei_is_lost(call->pool);
    if (!is_lost)
        status = begin_on(call, stream);
    if (is_lost || (status != BINADE_OK && binadei_is_lost(call->pool)))
        status = begin_on(call, BINADE_STREAM_DONE);
    return status;
}

static void call_end(const struct binadei_call *call)
{
    binadei_thread_leave(call->thread);
    binadei_cancel_restore(call->cancel_state);
}

binade_status binadei_call_begin(struct binade_pool *pool, binade_stream stream,
                                 struct binadei_call *out)
{
    *out = (struct binadei_call){.pool = pool, .stream = stream};
    if (!pool)
        return binadei_fail(BINADE_E_INVALID, "the pool is NULL");
    binade_status status = binadei_thread_enter(&out->thread);
    if (status != BINADE_OK)
        return status;
    out->cancel_state = binadei_cancel_hold();
    if (binadei_thread_serving(out->thread) == pool)
        status = BINADE_E_BUSY;
    else if (binadei_attention(pool) & BINADEI_ATTENTION_DEAD)
        status = binadei_fail(BINADE_E_INVALID, "the pool was destroyed");
    else
        status = call_begin(out, stream);
    if (status != BINADE_OK)
        call_end(out);
    return status;
}

void binadei_call_leave(struct binadei_call *call)
{
    if (call->pinned)
        binadei_slot_unpin(call->pinned);
    binadei_operation_end(call->member);
    call_end(call);
}

/* What others look for does not stay in caches that they cannot reach, nor while
 * they look for the last time. */
static bool has_to_give(const struct binadei_call *call)
{
    return !binadei_gate_is_open(call->engine) ||
           /* relaxed: our own. */
           atomic_load_explicit(&call->member->is_calling_back,
                                memory_order_relaxed);
}

void binadei_call_end(struct binadei_call *call)
{
    if (has_to_give(call))
        binadei_member_empty(call->member);
    binadei_call_leave(call);
}

void binadei_call_pass_gate(struct binadei_call *call)
{
    while (!binadei_gate_is_open(call->engine)) {
        binadei_member_empty(call->member);
        binadei_operation_end(call->member);
        binadei_gate_wait(call->engine);
        binadei_operation_begin(call->member);
    }
}

void binadei_call_resume(struct binadei_call *call)
{
    binadei_operation_begin(call->member);
    if (is_wanted(call->member))
        binadei_member_empty(call->member);
}

void binadei_call_nap(struct binadei_call *call, long *duration_ns,
                      long most_ns)
{
    binadei_operation_end(call->member);
    binadei_nap_longer(duration_ns, most_ns);
    binadei_call_resume(call);
    binadei_call_pass_gate(call);
}

/* Stands for the stream from now on. */
static binade_status record_final(struct binadei_engine *engine,
                                  struct binadei_slot *slot)
{
    struct binadei_section section;
    binade_status status =
        binadei_context_enter(engine->streams.home, &section);
    if (status != BINADE_OK)
        return status;
    status = binadei_record_final(&engine->streams, slot);
    (void)binadei_section_leave(&section);
    return status;
}

binade_status binadei_stream_close(struct binadei_call *call,
                                   binade_stream stream)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_slot *slot = binadei_slot_find(&engine->streams, stream);
    if (!slot)
        return BINADE_OK;
    if (!binadei_slot_close(&engine->streams, slot)) {
        binadei_slot_unuse(slot);
        return BINADE_OK;
    }
    /* AT.release: who sees the new value finds the slot closed. AT.acquire: and
     * our sweep those that were closed before. */
    uint64_t attention =
        BINADEI_ATTENTION_STEP +
        atomic_fetch_add_explicit(&call->pool->attention,
                                  BINADEI_ATTENTION_STEP, memory_order_acq_rel);
    binade_status status = record_final(engine, slot);
    binadei_depot_drain(call->member, slot);
    binadei_slot_unuse(slot);
    call_sweep(call->member, attention & ~BINADEI_ATTENTION_FLAGS);
    return binadei_is_lost(call->pool) ? BINADE_OK : status;
}
