/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of streams and contexts: arguments.
 */
#include "moiety/stream.h"

#include "moiety/pool.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/later.h"
#include "pool/cache/gate.h"
#include "pool/cache/thread.h"
#include "pool/core/body.h"
#include "pool/core/exposed.h"
#include "pool/core/ops.h"
#include "pool/core/recorded.h"
#include "pool/core/work.h"
#include "pool/graph/scopes.h"
#include "pool/stream/capture_guard.h"
#include "pool/stream/epoch.h"

moiety_status moiety_record_use(moiety_pool *pool, moiety_devptr address,
                                moiety_stream stream)
{
    struct moietyi_call call;
    if (stream == MOIETY_STREAM_DONE)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_record_use: DONE is no stream");
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    if (address)
        status = pool->body->ops->use(&call, address, stream);
    moietyi_call_end(&call);
    return status;
}

/* The bytes of a block, 0 where none starts. */
static uint64_t bytes_at(const struct moietyi_call *call, moiety_devptr address)
{
    struct moietyi_block block;
    return call->thread_state->history &&
                   moietyi_block_at(call->engine, address, &block) == MOIETY_OK
               ? block.grains * MOIETYI_GRAIN_BYTES
               : 0;
}

static moiety_status put_and_note(struct moietyi_call *call,
                                  moiety_devptr address, moiety_event event)
{
    struct moietyi_note note = {
        .kind = MOIETY_HISTORY_FREE_AFTER,
        .ticks = moietyi_ticks_before(call),
        .address = address,
        .size_bytes = bytes_at(call, address),
    };
    note.status = call->pool->body->ops->free_after(call, address, event);
    moietyi_note(call, &note);
    return note.status;
}

moiety_status moiety_free_on_event(moiety_pool *pool, moiety_devptr address,
                                   moiety_event event)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    if (address)
        status = event ? put_and_note(&call, address, event)
                       : moietyi_fail(MOIETY_E_INVALID,
                                      "moiety_free_on_event: event is NULL");
    moietyi_call_end(&call);
    return status;
}

static bool stream_is_created(moiety_stream stream)
{
    return stream && stream != MOIETY_STREAM_LEGACY &&
           stream != MOIETY_STREAM_PER_THREAD && stream != MOIETY_STREAM_ANY &&
           stream != MOIETY_STREAM_DONE;
}

static moiety_status retire(struct moietyi_call *call, moiety_stream stream)
{
    moiety_status status = moietyi_scopes_retire(call, stream);
    return status == MOIETY_OK ? moietyi_stream_close(call, stream) : status;
}

moiety_status moiety_pool_retire_stream(moiety_pool *pool, moiety_stream stream)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_note note = {.kind = MOIETY_HISTORY_RETIRE,
                                .ticks = moietyi_ticks_before(&call),
                                .stream = stream};
    status =
        stream_is_created(stream)
            ? retire(&call, stream)
            : moietyi_fail(MOIETY_E_INVALID,
                           "moiety_pool_retire_stream: not a created stream");
    note.status = status;
    moietyi_note(&call, &note);
    /* A stream of an open scope, or that captures, goes on. */
    if (status != MOIETY_E_NO_HOST_MEMORY && status != MOIETY_E_IN_USE &&
        status != MOIETY_E_CAPTURING)
        pool->body->ops->forget(&call, stream);
    moietyi_call_end(&call);
    return status;
}

static void retire_look(const struct moietyi_pool_body *body, void *context)
{
    *(moiety_pool **)context = body->pool;
}

/* A pool that has ended since it was seen has nothing to forget. */
static moiety_status retire_from(moiety_pool *pool, moiety_stream stream)
{
    moiety_status status = moietyi_is_dead(pool)
                               ? MOIETY_OK
                               : moiety_pool_retire_stream(pool, stream);
    return status == MOIETY_E_DESTROYED ? MOIETY_OK : status;
}

moiety_status moiety_retire_stream(moiety_stream stream)
{
    struct moietyi_failure why;
    moiety_status first = MOIETY_OK;
    moiety_pool *pool = NULL;
    uint64_t id = 0;
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    if (!stream_is_created(stream))
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_retire_stream: not a created stream");
    while ((id = moietyi_exposed_look(id + 1, retire_look, &pool)) != 0) {
        moiety_status status = retire_from(pool, stream);
        if (status == MOIETY_OK || first != MOIETY_OK)
            continue;
        first = status;
        moietyi_failure_keep(&why);
    }
    if (first != MOIETY_OK)
        moietyi_failure_restore(&why);
    return first;
}

/* Memory that was freed while an event of its stream was under way is behind
 * the next one. */
#define EVENTS_MOST 2U
#define NS_PER_MS UINT64_C(1000000)

static moiety_status synchronize(struct moietyi_call *call,
                                 const struct moietyi_patience *patience)
{
    moiety_status status = MOIETY_OK;
    for (unsigned i = 0; i < EVENTS_MOST && status == MOIETY_OK; i++) {
        moietyi_reclaim_cached(call, true);
        if (!i || moietyi_epochs_are_pending(&call->engine->streams))
            status = moietyi_wait_for_work(call, patience);
    }
    struct moietyi_failure why;
    moietyi_failure_keep(&why);
    (void)moietyi_reclaim_done(call);
    moietyi_failure_restore(&why);
    if (status != MOIETY_OK)
        return status;
    (void)moietyi_reclaim_synchronise(call);
    return MOIETY_OK;
}

moiety_status moiety_pool_synchronize(moiety_pool *pool, uint32_t timeout_ms)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    moietyi_call_pass_gate(&call);
    struct moietyi_patience patience = moietyi_patience_from_now(&call);
    patience.work_end_ns = moietyi_now_ns() + timeout_ms * NS_PER_MS;
    call.is_pressed = true;
    call.may_wait = true;
    if (moietyi_is_lost(pool)) {
        status = moietyi_context_refuse(call.engine->streams.own_context);
    } else if (moietyi_capture_guard_is_held()) {
        status = moietyi_fail(MOIETY_E_CAPTURING,
                              "moiety_pool_synchronize: a capture guard or a "
                              "scope is held");
    } else {
        status = synchronize(&call, &patience);
    }
    moietyi_call_end(&call);
    return status;
}

moiety_status moiety_capture_guard_begin(void)
{
    struct moietyi_thread_call call;
    moiety_status status = moietyi_thread_call_begin(&call);
    if (status != MOIETY_OK)
        return status;
    moietyi_capture_guard_begin();
    moietyi_thread_call_end(&call);
    return MOIETY_OK;
}

moiety_status moiety_capture_guard_end(void)
{
    struct moietyi_thread_call call;
    moiety_status status = moietyi_thread_call_begin(&call);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_capture_guard_end();
    moietyi_thread_call_end(&call);
    if (status == MOIETY_OK && !moietyi_capture_guard_is_held())
        moietyi_later_run(MOIETYI_END_LOOKS);
    return status;
}

uint64_t moiety_capture_age_ns(void)
{
    return moietyi_capture_guard_is_held() ? 0 : moietyi_capture_age_ns();
}

moiety_status moiety_pool_add_context(moiety_pool *pool, moiety_context context)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    if (!context)
        status = moietyi_fail(MOIETY_E_INVALID,
                              "moiety_pool_add_context: context is NULL");
    else if (moietyi_is_lost(pool))
        status = moietyi_context_refuse(call.engine->streams.own_context);
    else
        status = moietyi_context_check(call.engine->streams.driver, context);
    if (status == MOIETY_OK)
        status = moietyi_streams_add_context(&call.engine->streams, context);
    moietyi_call_leave(&call);
    return status;
}

/* For a program that knows that a pool's context is going to end. The
 * consequences are elsewhere: moietyi_context_enter() keeps all calls from the
 * driver, moietyi_put() accepts blocks whose memory is gone, and
 * moietyi_escalate() finds none. */
moiety_status moiety_pool_context_lost(moiety_pool *pool)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    moietyi_context_lose(call.engine->streams.own_context,
                         MOIETY_E_CONTEXT_DESTROYED);
    moietyi_call_leave(&call);
    return MOIETY_OK;
}
