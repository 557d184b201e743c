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

static moiety_status call_no_memory(void)
{
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "no memory for a thread's caches");
}

static bool is_named(moiety_stream stream)
{
    return stream != MOIETY_STREAM_ANY && stream != MOIETY_STREAM_DONE;
}

/* The thread state's cache of a stream state. `is_counted`: the caller counted
 * itself as the stream state's user, which the cache is from now on. */
static struct moietyi_cache *cache_of(struct moietyi_thread_state *thread_state,
                                      struct moietyi_stream_state *stream_state,
                                      bool is_counted)
{
    struct moietyi_cache *cache =
        moietyi_cache_find(thread_state, stream_state);
    bool is_new = !cache;
    if (is_new)
        cache = moietyi_cache_make(thread_state, stream_state);
    if (is_counted && (!is_new || !cache))
        moietyi_stream_state_unuse(stream_state);
    return cache;
}

static moiety_status named_cache(struct moietyi_thread_state *thread_state,
                                 moiety_stream stream,
                                 struct moietyi_cache **out)
{
    struct moietyi_stream_state *stream_state;
    struct moietyi_section section;
    moiety_status status = moietyi_context_enter(
        thread_state->engine->streams.own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_stream_state_use(&thread_state->engine->streams,
                                      thread_state, stream, &stream_state);
    (void)moietyi_section_leave(&section);
    if (status != MOIETY_OK)
        return status;
    *out = cache_of(thread_state, stream_state, true);
    return *out ? MOIETY_OK : call_no_memory();
}

/* The cache that takes a stream's freed blocks. NULL, and why. */
static struct moietyi_cache *
push_cache(struct moietyi_thread_state *thread_state, moiety_stream stream,
           moiety_status *out_status)
{
    struct moietyi_cache *cache = NULL;
    *out_status = MOIETY_OK;
    if (stream == MOIETY_STREAM_DONE)
        cache = thread_state->done;
    else if (stream == MOIETY_STREAM_ANY)
        cache =
            cache_of(thread_state, thread_state->engine->streams.any, false);
    else
        *out_status = named_cache(thread_state, stream, &cache);
    if (!cache && *out_status == MOIETY_OK)
        *out_status = call_no_memory();
    return cache;
}

/* Memory freed with ANY is not reused before its event. */
static struct moietyi_cache *pop_cache(struct moietyi_cache *push)
{
    return push->stream_state->kind == MOIETYI_STREAM_STATE_ANY
               ? push->thread_state->done
               : push;
}

/* Empties and ends the caches of retired streams: their blocks wait for the
 * final event. */
static void call_sweep(struct moietyi_thread_state *thread_state,
                       uint64_t attention)
{
    struct moietyi_cache *next;
    bool is_swept = true;
    for (struct moietyi_cache *cache = thread_state->caches; cache;
         cache = next) {
        next = cache->next;
        if (!moietyi_stream_state_is_closed(cache->stream_state))
            continue;
        moietyi_thread_forget(thread_state->thread, cache);
        moietyi_cache_empty(thread_state, cache);
        is_swept &= moietyi_cache_try_drop(cache);
    }
    if (is_swept)
        thread_state->attention = attention;
}

/* Drains what retired streams freed as new streams come, so that their stream
 * states can be used again. */
static void call_drain_closed(struct moietyi_thread_state *thread_state)
{
    moietyi_slow_path_begin(thread_state);
    const struct moietyi_stream_user user =
        moietyi_thread_state_user(thread_state);
    thread_state->given_bytes +=
        moietyi_epochs_drain_closed(&user) * MOIETYI_GRAIN_BYTES;
    moietyi_slow_path_end(thread_state);
}

/* The route, checked for this moment. NULL and a status if there is none. */
static struct moietyi_route *find_route(struct moietyi_thread *thread,
                                        struct moiety_pool *pool,
                                        moiety_stream stream,
                                        moiety_status *out_status)
{
    /* AT.acquire: a sweep for this value finds the stream states closed. */
    uint64_t attention =
        atomic_load_explicit(&pool->attention, memory_order_acquire) &
        ~MOIETYI_ATTENTION_FLAGS;
    struct moietyi_route *route = moietyi_thread_find(thread, pool, stream);
    *out_status = MOIETY_OK;
    if (route && route->push && route->attention == attention)
        return route;
    /* A route knows the thread state without a lock. */
    struct moietyi_thread_state *thread_state =
        route && route->push ? route->push->thread_state
                             : moietyi_thread_state_of(thread, pool->engine);
    if (thread_state && thread_state->attention != attention) {
        moietyi_slow_path_begin(thread_state);
        call_sweep(thread_state, attention);
        moietyi_slow_path_end(thread_state);
    }
    if (route && route->push &&
        !moietyi_stream_state_is_closed(route->push->stream_state)) {
        route->attention = attention;
        return route;
    }
    if (thread_state && is_named(stream))
        call_drain_closed(thread_state);
    struct moietyi_cache *push =
        thread_state ? push_cache(thread_state, stream, out_status) : NULL;
    if (*out_status != MOIETY_OK)
        return NULL;
    route = moietyi_thread_find(thread, pool, stream);
    if (!route && push)
        route = moietyi_thread_add(thread, pool, stream);
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

moiety_status moietyi_look_for_capture(const struct moietyi_call *call,
                                       moiety_stream stream,
                                       struct moietyi_capture *out)
{
    struct moietyi_section section;
    const struct moietyi_engine *engine = call->engine;
    moiety_status status =
        moietyi_context_enter(engine->streams.own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_capture_of(&engine->streams,
                                stream ? stream : MOIETY_STREAM_LEGACY, out);
    (void)moietyi_section_leave(&section);
    return status;
}

/* Whether this stream captures; while a guard is held. */
static moiety_status look_for_capture(struct moietyi_call *call,
                                      moiety_stream stream)
{
    if (!(moietyi_attention(call->pool) & MOIETYI_ATTENTION_GUARD) ||
        !is_named(stream))
        return MOIETY_OK;
    moiety_status status =
        moietyi_look_for_capture(call, stream, &call->capture);
    if (status != MOIETY_OK)
        return status;
    /* The legacy stream is no part of a blocking stream's capture. Nothing can
     * be queued on it meanwhile, so its frees get their events later. */
    call->is_capturing = call->capture.kind >= MOIETYI_CAPTURE_BROKEN;
    /* A graph may run at any time, so its memory must have no pending work. */
    if (call->is_capturing)
        call->pop = call->thread_state->done;
    return MOIETY_OK;
}

/* The stream state of a note, if this thread may free on its stream: counted as
 * in use, and not retired until unpinned. Or NULL. */
static struct moietyi_stream_state *pin_noted(const struct moietyi_call *call,
                                              uint32_t note)
{
    struct moietyi_stream_state *stream_state =
        note > MOIETYI_NOTE_ANY
            ? moietyi_stream_state_use_noted(&call->engine->streams, note)
            : NULL;
    bool is_own =
        stream_state && (stream_state->kind == MOIETYI_STREAM_STATE_STREAM ||
                         stream_state->owner == call->thread_state);
    if (is_own && moietyi_stream_state_pin(stream_state))
        return stream_state;
    if (stream_state)
        moietyi_stream_state_unuse(stream_state);
    return NULL;
}

moiety_status moietyi_call_turn(struct moietyi_call *call, uint32_t note)
{
    struct moietyi_stream_state *stream_state = pin_noted(call, note);
    struct moietyi_cache *push =
        cache_of(call->thread_state,
                 stream_state ? stream_state : call->engine->streams.any,
                 stream_state != NULL);
    if (!push) {
        if (stream_state)
            moietyi_stream_state_unpin(stream_state);
        return call_no_memory();
    }
    call->pinned = stream_state;
    call->stream = stream_state ? stream_state->stream : MOIETY_STREAM_ANY;
    call->push = push;
    call->pop = pop_cache(push);
    return MOIETY_OK;
}

moiety_status moietyi_call_look(struct moietyi_call *call)
{
    return look_for_capture(call, call->stream);
}

/* Whether others asked for the caches since the last look. */
static bool is_wanted(struct moietyi_thread_state *thread_state)
{
    /* relaxed: it came with CL, or the next call sees it. */
    if (!atomic_load_explicit(&thread_state->is_wanted, memory_order_relaxed))
        return false;
    /* relaxed: a thread that asks later sets it again. */
    atomic_store_explicit(&thread_state->is_wanted, false,
                          memory_order_relaxed);
    return true;
}

static void follow(struct moietyi_call *call, const struct moietyi_route *route)
{
    call->engine = call->pool->engine;
    call->pop = route->pop;
    call->push = route->push;
    call->thread_state = route->push->thread_state;
}

/* Checked again, now that the thread that destroys the pool can see the slow
 * path. */
static uint64_t attention_inside(const struct moiety_pool *pool)
{
    /* IN.seq_cst: after the slow path has begun. */
    return atomic_load_explicit(&pool->attention, memory_order_seq_cst);
}

static moiety_status begin_on(struct moietyi_call *call, moiety_stream stream)
{
    moiety_status status;
    struct moietyi_route *route =
        find_route(call->thread, call->pool, stream, &status);
    if (!route)
        return status;
    follow(call, route);
    moietyi_slow_path_begin(call->thread_state);
    if (attention_inside(call->pool) & MOIETYI_ATTENTION_DEAD) {
        moietyi_slow_path_end(call->thread_state);
        return moietyi_fail(MOIETY_E_DESTROYED, "the pool was destroyed");
    }
    if (is_wanted(call->thread_state))
        moietyi_thread_state_empty(call->thread_state);
    moiety_status looked = look_for_capture(call, stream);
    if (looked != MOIETY_OK)
        moietyi_slow_path_end(call->thread_state);
    else if (call->thread_state->is_new)
        moietyi_reclaim_some_abandoned(call);
    call->thread_state->is_new &= looked != MOIETY_OK;
    return looked;
}

/* A pool whose context is lost finds no stream. The loss may be found here. */
static moiety_status call_begin(struct moietyi_call *call, moiety_stream stream)
{
    moiety_status status = MOIETY_OK;
    bool is_lost = moietyi_is_lost(call->pool);
    if (!is_lost)
        status = begin_on(call, stream);
    if (is_lost || (status != MOIETY_OK && moietyi_is_lost(call->pool)))
        status = begin_on(call, MOIETY_STREAM_DONE);
    return status;
}

static void call_end(const struct moietyi_call *call)
{
    moietyi_thread_leave(call->thread);
    moietyi_thread_tell(call->thread);
    moietyi_cancel_restore(call->cancel_state);
}

moiety_status moietyi_call_begin(struct moiety_pool *pool, moiety_stream stream,
                                 struct moietyi_call *out)
{
    *out = (struct moietyi_call){.pool = pool, .stream = stream};
    if (!pool)
        return moietyi_fail(MOIETY_E_INVALID, "the pool is NULL");
    moiety_status status = moietyi_thread_enter(&out->thread);
    if (status != MOIETY_OK)
        return status;
    out->cancel_state = moietyi_cancel_hold();
    if (moietyi_is_dead(pool)) {
        status = moietyi_fail(MOIETY_E_DESTROYED, "the pool was destroyed");
    } else if (moietyi_thread_serves(out->thread, pool)) {
        status = moietyi_fail(MOIETY_E_REENTRANT,
                              "the pool called this function in the middle of "
                              "a call of its own");
    } else {
        status = call_begin(out, stream);
    }
    if (status != MOIETY_OK)
        call_end(out);
    return status;
}

/* One by one: all of it at once would be a loop. */
static inline void prepare_plain(struct moietyi_call *call,
                                 struct moietyi_thread *thread,
                                 const struct moietyi_route *route)
{
    call->stream = route->stream;
    call->thread = thread;
    call->is_capturing = false;
    call->has_missed = false;
    call->is_miss_counted = false;
    call->is_pressed = false;
    call->may_wait = false;
    call->pinned = NULL;
    call->capture.kind = MOIETYI_CAPTURE_NONE;
    follow(call, route);
}

bool moietyi_call_begin_plain(struct moiety_pool *pool,
                              struct moietyi_thread *thread,
                              const struct moietyi_route *route,
                              struct moietyi_call *out)
{
    if (moietyi_thread_serves(thread, pool))
        return false;
    out->pool = pool;
    prepare_plain(out, thread, route);
    if (!moietyi_slow_path_count(out->thread_state) ||
        attention_inside(out->pool) != route->attention) {
        moietyi_slow_path_end(out->thread_state);
        return false;
    }
    if (is_wanted(out->thread_state))
        moietyi_thread_state_empty(out->thread_state);
    return true;
}

void moietyi_call_leave(struct moietyi_call *call)
{
    if (call->pinned)
        moietyi_stream_state_unpin(call->pinned);
    moietyi_slow_path_end(call->thread_state);
    call_end(call);
}

/* Caches must not keep what others search for: while they cannot take these
 * caches, and during a final scan. */
static bool has_to_give(const struct moietyi_call *call)
{
    return !moietyi_gate_is_open(call->engine) ||
           /* relaxed: our own. */
           atomic_load_explicit(&call->thread_state->is_calling_back,
                                memory_order_relaxed);
}

static inline void give_and_tell(struct moietyi_call *call)
{
    if (has_to_give(call))
        moietyi_thread_state_empty(call->thread_state);
    moietyi_live_tell_own(call->thread_state);
}

void moietyi_call_end(struct moietyi_call *call)
{
    give_and_tell(call);
    moietyi_call_leave(call);
}

void moietyi_call_end_plain(struct moietyi_call *call)
{
    give_and_tell(call);
    moietyi_slow_path_end(call->thread_state);
}

void moietyi_call_pass_gate(struct moietyi_call *call)
{
    while (!moietyi_gate_is_open(call->engine)) {
        moietyi_thread_state_empty(call->thread_state);
        moietyi_slow_path_end(call->thread_state);
        moietyi_gate_wait(call->engine);
        moietyi_slow_path_begin(call->thread_state);
    }
}

void moietyi_call_resume(struct moietyi_call *call)
{
    moietyi_slow_path_begin(call->thread_state);
    if (is_wanted(call->thread_state))
        moietyi_thread_state_empty(call->thread_state);
}

void moietyi_call_nap(struct moietyi_call *call, long *duration_ns,
                      long most_ns)
{
    moietyi_slow_path_end(call->thread_state);
    moietyi_nap_longer(duration_ns, most_ns);
    moietyi_interrupt_ask();
    moietyi_call_resume(call);
    moietyi_call_pass_gate(call);
}

/* Records the event that stands for the stream from now on. */
static moiety_status record_final(struct moietyi_engine *engine,
                                  struct moietyi_stream_state *stream_state)
{
    struct moietyi_section section;
    moiety_status status =
        moietyi_context_enter(engine->streams.own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_record_final(&engine->streams, stream_state);
    (void)moietyi_section_leave(&section);
    return status;
}

moiety_status moietyi_stream_close(struct moietyi_call *call,
                                   moiety_stream stream)
{
    struct moietyi_engine *engine = call->engine;
    struct moietyi_stream_state *stream_state =
        moietyi_stream_state_find(&engine->streams, stream);
    if (!stream_state)
        return MOIETY_OK;
    if (!moietyi_stream_state_close(&engine->streams, stream_state)) {
        moietyi_stream_state_unuse(stream_state);
        return MOIETY_OK;
    }
    /* AT.release: a thread that sees the new value finds the stream state
     * closed. AT.acquire: our sweep finds those that were closed before. */
    uint64_t attention =
        MOIETYI_ATTENTION_STEP +
        atomic_fetch_add_explicit(&call->pool->attention,
                                  MOIETYI_ATTENTION_STEP, memory_order_acq_rel);
    moiety_status status = record_final(engine, stream_state);
    moietyi_stream_state_unuse(stream_state);
    call_sweep(call->thread_state, attention & ~MOIETYI_ATTENTION_FLAGS);
    return moietyi_is_lost(call->pool) ? MOIETY_OK : status;
}
