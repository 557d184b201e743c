/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The beginning of a call that is no hit: which caches serve it. The rule table
 * of docs/streams.md is decided here, by the choice of stream states.
 */
#include "pool/base/cancel.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/cache/cache.h"
#include "pool/cache/gate.h"
#include "pool/cache/hit.h"
#include "pool/cache/live.h"
#include "pool/cache/magazine.h"
#include "pool/cache/registry.h"
#include "pool/driver/section.h"
#include "pool/stream/epoch.h"
#include "pool/stream/event.h"
#include "pool/stream/stream_state.h"

static binade_status call_no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory for a thread's caches");
}

static bool is_named(binade_stream stream)
{
    return stream != BINADE_STREAM_ANY && stream != BINADE_STREAM_DONE;
}

/* The thread state's cache of a stream state. `is_counted`: the caller counted
 * itself as the stream state's user, which the cache is from now on. */
static struct binadei_cache *cache_of(struct binadei_thread_state *thread_state,
                                      struct binadei_stream_state *stream_state,
                                      bool is_counted)
{
    struct binadei_cache *cache =
        binadei_cache_find(thread_state, stream_state);
    bool is_new = !cache;
    if (is_new)
        cache = binadei_cache_make(thread_state, stream_state);
    if (is_counted && (!is_new || !cache))
        binadei_stream_state_unuse(stream_state);
    return cache;
}

static binade_status named_cache(struct binadei_thread_state *thread_state,
                                 binade_stream stream,
                                 struct binadei_cache **out)
{
    struct binadei_stream_state *stream_state;
    struct binadei_section section;
    binade_status status = binadei_context_enter(
        thread_state->engine->streams.own_context, &section);
    if (status != BINADE_OK)
        return status;
    status = binadei_stream_state_use(&thread_state->engine->streams,
                                      thread_state, stream, &stream_state);
    (void)binadei_section_leave(&section);
    if (status != BINADE_OK)
        return status;
    *out = cache_of(thread_state, stream_state, true);
    return *out ? BINADE_OK : call_no_memory();
}

/* The cache that takes a stream's freed blocks. NULL, and why. */
static struct binadei_cache *
push_cache(struct binadei_thread_state *thread_state, binade_stream stream,
           binade_status *out_status)
{
    struct binadei_cache *cache = NULL;
    *out_status = BINADE_OK;
    if (stream == BINADE_STREAM_DONE)
        cache = thread_state->done;
    else if (stream == BINADE_STREAM_ANY)
        cache =
            cache_of(thread_state, thread_state->engine->streams.any, false);
    else
        *out_status = named_cache(thread_state, stream, &cache);
    if (!cache && *out_status == BINADE_OK)
        *out_status = call_no_memory();
    return cache;
}

/* What ANY freed serves nobody before its event. */
static struct binadei_cache *pop_cache(struct binadei_cache *push)
{
    return push->stream_state->kind == BINADEI_STREAM_STATE_ANY
               ? push->thread_state->done
               : push;
}

/* Caches of streams that were retired: their blocks wait for the final event,
 * and the caches end. */
static void call_sweep(struct binadei_thread_state *thread_state,
                       uint64_t attention)
{
    struct binadei_cache *next;
    bool is_swept = true;
    for (struct binadei_cache *cache = thread_state->caches; cache;
         cache = next) {
        next = cache->next;
        if (!binadei_stream_state_is_closed(cache->stream_state))
            continue;
        binadei_thread_forget(thread_state->thread, cache);
        is_swept &= binadei_cache_empty(thread_state, cache) &&
                    binadei_cache_try_drop(cache);
    }
    if (is_swept)
        thread_state->attention = attention;
}

/* What streams freed that were retired becomes everybody's as new streams come,
 * so that their stream states can be used again. */
static void call_drain_closed(struct binadei_thread_state *thread_state)
{
    binadei_slow_path_begin(thread_state);
    const struct binadei_stream_user user =
        binadei_thread_state_user(thread_state);
    thread_state->given_bytes +=
        binadei_epochs_drain_closed(&user) * BINADEI_GRAIN_BYTES;
    binadei_slow_path_end(thread_state);
}

/* The route, right for this moment. NULL, and why. */
static struct binadei_route *find_route(struct binadei_thread *thread,
                                        struct binade_pool *pool,
                                        binade_stream stream,
                                        binade_status *out_status)
{
    /* AT.acquire: a sweep for this value finds the stream states closed. */
    uint64_t attention =
        atomic_load_explicit(&pool->attention, memory_order_acquire) &
        ~BINADEI_ATTENTION_FLAGS;
    struct binadei_route *route = binadei_thread_find(thread, pool, stream);
    *out_status = BINADE_OK;
    if (route && route->push && route->attention == attention)
        return route;
    /* A route knows the thread state without a lock. */
    struct binadei_thread_state *thread_state =
        route && route->push ? route->push->thread_state
                             : binadei_thread_state_of(thread, pool->engine);
    if (thread_state && thread_state->attention != attention) {
        binadei_slow_path_begin(thread_state);
        call_sweep(thread_state, attention);
        binadei_slow_path_end(thread_state);
    }
    if (route && route->push &&
        !binadei_stream_state_is_closed(route->push->stream_state)) {
        route->attention = attention;
        return route;
    }
    if (thread_state && is_named(stream))
        call_drain_closed(thread_state);
    struct binadei_cache *push =
        thread_state ? push_cache(thread_state, stream, out_status) : NULL;
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
    route->note = thread_state->engine->notes ? push->stream_state->note : 0;
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
        binadei_context_enter(engine->streams.own_context, &section);
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
        call->pop = call->thread_state->done;
    return BINADE_OK;
}

/* The stream state that a note stands for, if this thread may free on its
 * stream: it is counted as in use, and not retired before it was unpinned. Or
 * NULL. */
static struct binadei_stream_state *pin_noted(const struct binadei_call *call,
                                              uint32_t note)
{
    struct binadei_stream_state *stream_state =
        note > BINADEI_NOTE_ANY
            ? binadei_stream_state_use_noted(&call->engine->streams, note)
            : NULL;
    bool is_own =
        stream_state && (stream_state->kind == BINADEI_STREAM_STATE_STREAM ||
                         stream_state->owner == call->thread_state);
    if (is_own && binadei_stream_state_pin(stream_state))
        return stream_state;
    if (stream_state)
        binadei_stream_state_unuse(stream_state);
    return NULL;
}

binade_status binadei_call_turn(struct binadei_call *call, uint32_t note)
{
    struct binadei_stream_state *stream_state = pin_noted(call, note);
    struct binadei_cache *push =
        cache_of(call->thread_state,
                 stream_state ? stream_state : call->engine->streams.any,
                 stream_state != NULL);
    if (!push) {
        if (stream_state)
            binadei_stream_state_unpin(stream_state);
        return call_no_memory();
    }
    call->pinned = stream_state;
    call->stream = stream_state ? stream_state->stream : BINADE_STREAM_ANY;
    call->push = push;
    call->pop = pop_cache(push);
    return BINADE_OK;
}

binade_status binadei_call_look(struct binadei_call *call)
{
    return look_for_capture(call, call->stream);
}

/* Whether others asked for what is in the caches, since the last look. */
static bool is_wanted(struct binadei_thread_state *thread_state)
{
    /* relaxed: it came with CL, or the next call sees it. */
    if (!atomic_load_explicit(&thread_state->is_wanted, memory_order_relaxed))
        return false;
    /* relaxed: who asks later sets it again. */
    atomic_store_explicit(&thread_state->is_wanted, false,
                          memory_order_relaxed);
    return true;
}

static void follow(struct binadei_call *call, const struct binadei_route *route)
{
    call->engine = call->pool->engine;
    call->pop = route->pop;
    call->push = route->push;
    call->thread_state = route->push->thread_state;
}

/* Once more, now that the thread that destroys the pool can see the slow path. */
static uint64_t attention_inside(const struct binade_pool *pool)
{
    /* IN.seq_cst: after the slow path has begun. */
    return atomic_load_explicit(&pool->attention, memory_order_seq_cst);
}

static binade_status begin_on(struct binadei_call *call, binade_stream stream)
{
    binade_status status;
    struct binadei_route *route =
        find_route(call->thread, call->pool, stream, &status);
    if (!route)
        return status;
    follow(call, route);
    binadei_slow_path_begin(call->thread_state);
    if (attention_inside(call->pool) & BINADEI_ATTENTION_DEAD) {
        binadei_slow_path_end(call->thread_state);
        return binadei_fail(BINADE_E_INVALID, "the pool was destroyed");
    }
    if (is_wanted(call->thread_state))
        binadei_thread_state_empty(call->thread_state);
    binade_status looked = look_for_capture(call, stream);
    if (looked != BINADE_OK)
        binadei_slow_path_end(call->thread_state);
    else if (call->thread_state->is_new)
        binadei_reclaim_some_abandoned(call);
    call->thread_state->is_new &= looked != BINADE_OK;
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
    binadei_thread_tell(call->thread);
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
    if (binadei_thread_serves(out->thread, pool)) {
        status = binadei_fail(BINADE_E_BUSY,
                              "the pool called this function in the middle of "
                              "a call of its own");
    } else if (binadei_is_dead(pool)) {
        status = binadei_fail(BINADE_E_INVALID, "the pool was destroyed");
    } else {
        status = call_begin(out, stream);
    }
    if (status != BINADE_OK)
        call_end(out);
    return status;
}

/* Inside, by a right route. */
static bool go_on_plain(struct binadei_call *call,
                        const struct binadei_route *route)
{
    follow(call, route);
    if (!binadei_slow_path_count(call->thread_state) ||
        attention_inside(call->pool) != route->attention) {
        binadei_slow_path_end(call->thread_state);
        return false;
    }
    if (is_wanted(call->thread_state))
        binadei_thread_state_empty(call->thread_state);
    call->cancel_state = binadei_cancel_hold();
    return true;
}

bool binadei_call_begin_plain(struct binade_pool *pool, binade_stream stream,
                              struct binadei_call *out)
{
    struct binadei_thread *thread = binadei_thread_self;
    if (!binadei_hit_begin(thread))
        return false;
    const struct binadei_route *route = binadei_hit_find(thread, pool, stream);
    *out =
        (struct binadei_call){.pool = pool, .stream = stream, .thread = thread};
    if (route && !binadei_thread_serves(thread, pool) &&
        go_on_plain(out, route))
        return true;
    binadei_thread_leave(thread);
    return false;
}

void binadei_call_leave(struct binadei_call *call)
{
    if (call->pinned)
        binadei_stream_state_unpin(call->pinned);
    binadei_slow_path_end(call->thread_state);
    call_end(call);
}

/* What others look for does not stay in caches that they cannot reach, nor while
 * they look for the last time. */
static bool has_to_give(const struct binadei_call *call)
{
    return !binadei_gate_is_open(call->engine) ||
           /* relaxed: our own. */
           atomic_load_explicit(&call->thread_state->is_calling_back,
                                memory_order_relaxed);
}

void binadei_call_end(struct binadei_call *call)
{
    if (has_to_give(call))
        binadei_thread_state_empty(call->thread_state);
    binadei_live_tell_own(call->thread_state);
    binadei_call_leave(call);
}

void binadei_call_pass_gate(struct binadei_call *call)
{
    while (!binadei_gate_is_open(call->engine)) {
        binadei_thread_state_empty(call->thread_state);
        binadei_slow_path_end(call->thread_state);
        binadei_gate_wait(call->engine);
        binadei_slow_path_begin(call->thread_state);
    }
}

void binadei_call_resume(struct binadei_call *call)
{
    binadei_slow_path_begin(call->thread_state);
    if (is_wanted(call->thread_state))
        binadei_thread_state_empty(call->thread_state);
}

void binadei_call_nap(struct binadei_call *call, long *duration_ns,
                      long most_ns)
{
    binadei_slow_path_end(call->thread_state);
    binadei_nap_longer(duration_ns, most_ns);
    binadei_call_resume(call);
    binadei_call_pass_gate(call);
}

/* Stands for the stream from now on. */
static binade_status record_final(struct binadei_engine *engine,
                                  struct binadei_stream_state *stream_state)
{
    struct binadei_section section;
    binade_status status =
        binadei_context_enter(engine->streams.own_context, &section);
    if (status != BINADE_OK)
        return status;
    status = binadei_record_final(&engine->streams, stream_state);
    (void)binadei_section_leave(&section);
    return status;
}

binade_status binadei_stream_close(struct binadei_call *call,
                                   binade_stream stream)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_stream_state *stream_state =
        binadei_stream_state_find(&engine->streams, stream);
    if (!stream_state)
        return BINADE_OK;
    if (!binadei_stream_state_close(&engine->streams, stream_state)) {
        binadei_stream_state_unuse(stream_state);
        return BINADE_OK;
    }
    /* AT.release: who sees the new value finds the stream state closed.
     * AT.acquire: and our sweep those that were closed before. */
    uint64_t attention =
        BINADEI_ATTENTION_STEP +
        atomic_fetch_add_explicit(&call->pool->attention,
                                  BINADEI_ATTENTION_STEP, memory_order_acq_rel);
    binade_status status = record_final(engine, stream_state);
    binadei_depot_drain(call->thread_state, stream_state);
    binadei_stream_state_unuse(stream_state);
    call_sweep(call->thread_state, attention & ~BINADEI_ATTENTION_FLAGS);
    return binadei_is_lost(call->pool) ? BINADE_OK : status;
}
