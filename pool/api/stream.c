/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of streams and contexts: arguments.
 */
#include "binade/stream.h"

#include "binade/pool.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/cache/gate.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/core/recorded.h"
#include "pool/core/work.h"
#include "pool/graph/scopes.h"
#include "pool/stream/capture_guard.h"
#include "pool/stream/epoch.h"

binade_status binade_record_use(binade_pool *pool, binade_devptr address,
                                binade_stream stream)
{
    struct binadei_call call;
    if (stream == BINADE_STREAM_DONE)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_record_use: DONE is no stream");
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    if (address)
        status = pool->body->ops->use(&call, address, stream);
    binadei_call_end(&call);
    return status;
}

/* The bytes of a block, 0 where none starts. */
static uint64_t bytes_at(const struct binadei_call *call, binade_devptr address)
{
    struct binadei_block block;
    return call->thread_state->history &&
                   binadei_block_at(call->engine, address, &block) == BINADE_OK
               ? block.grains * BINADEI_GRAIN_BYTES
               : 0;
}

static binade_status put_and_note(struct binadei_call *call,
                                  binade_devptr address, binade_event event)
{
    struct binadei_note note = {
        .kind = BINADE_HISTORY_FREE_AFTER,
        .ticks = binadei_ticks_before(call),
        .address = address,
        .size_bytes = bytes_at(call, address),
    };
    note.status = call->pool->body->ops->free_after(call, address, event);
    binadei_note(call, &note);
    return note.status;
}

binade_status binade_free_after(binade_pool *pool, binade_devptr address,
                                binade_event event)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    if (address)
        status = event ? put_and_note(&call, address, event)
                       : binadei_fail(BINADE_E_INVALID,
                                      "binade_free_after: event is NULL");
    binadei_call_end(&call);
    return status;
}

static bool stream_is_created(binade_stream stream)
{
    return stream && stream != BINADE_STREAM_LEGACY &&
           stream != BINADE_STREAM_PER_THREAD && stream != BINADE_STREAM_ANY &&
           stream != BINADE_STREAM_DONE;
}

static binade_status retire(struct binadei_call *call, binade_stream stream)
{
    binade_status status = binadei_scopes_retire(call, stream);
    return status == BINADE_OK ? binadei_stream_close(call, stream) : status;
}

binade_status binade_stream_retire(binade_pool *pool, binade_stream stream)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    struct binadei_note note = {.kind = BINADE_HISTORY_RETIRE,
                                .ticks = binadei_ticks_before(&call),
                                .stream = stream};
    status = stream_is_created(stream)
                 ? retire(&call, stream)
                 : binadei_fail(BINADE_E_INVALID,
                                "binade_stream_retire: not a created stream");
    note.status = status;
    binadei_note(&call, &note);
    if (status != BINADE_E_NO_HOST_MEMORY && status != BINADE_E_BUSY)
        pool->body->ops->forget(&call, stream);
    binadei_call_end(&call);
    return status;
}

/* What was freed while an event of its stream was under way goes behind the
 * next one. */
#define EVENTS_MOST 2U
#define NS_PER_MS UINT64_C(1000000)

static binade_status synchronize(struct binadei_call *call,
                                 const struct binadei_patience *patience)
{
    binade_status status = BINADE_OK;
    for (unsigned i = 0; i < EVENTS_MOST && status == BINADE_OK; i++) {
        binadei_reclaim_cached(call, true);
        if (!i || binadei_epochs_are_pending(&call->engine->streams))
            status = binadei_wait_for_work(call, patience);
    }
    (void)binadei_reclaim_done(call);
    if (status == BINADE_OK)
        (void)binadei_reclaim_synchronise(call);
    return status;
}

binade_status binade_pool_synchronize(binade_pool *pool, uint32_t timeout_ms)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    binadei_call_pass_gate(&call);
    struct binadei_patience patience = binadei_patience_from_now(&call);
    patience.work_end_ns = binadei_now_ns() + timeout_ms * NS_PER_MS;
    call.is_pressed = true;
    call.may_wait = true;
    if (binadei_is_lost(pool))
        status = binadei_context_refuse(call.engine->streams.own_context);
    else if (binadei_capture_guard_is_held())
        status = binadei_fail(BINADE_E_CAPTURING,
                              "binade_pool_synchronize: a graph is captured");
    else
        status = synchronize(&call, &patience);
    binadei_call_end(&call);
    return status;
}

static binade_status check_fork(void)
{
    return binadei_is_forked() ? binadei_refuse_child() : BINADE_OK;
}

binade_status binade_capture_guard_begin(void)
{
    binade_status status = check_fork();
    if (status == BINADE_OK)
        binadei_capture_guard_begin();
    return status;
}

binade_status binade_capture_guard_end(void)
{
    binade_status status = check_fork();
    return status == BINADE_OK ? binadei_capture_guard_end() : status;
}

binade_status binade_pool_add_context(binade_pool *pool, binade_context context)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    if (!context)
        status = binadei_fail(BINADE_E_INVALID,
                              "binade_pool_add_context: context is NULL");
    else if (binadei_is_lost(pool))
        status = binadei_context_refuse(call.engine->streams.own_context);
    else
        status = binadei_context_check(call.engine->streams.driver, context);
    if (status == BINADE_OK)
        status = binadei_streams_add_context(&call.engine->streams, context);
    binadei_call_leave(&call);
    return status;
}

/* A program that knows that a pool's context goes, and says so. What follows
 * from it is where it matters: binadei_context_enter() keeps all calls from the
 * driver, binadei_put() takes blocks back that are nowhere any more, and
 * binadei_escalate() finds none. */
binade_status binade_pool_context_lost(binade_pool *pool)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    binadei_context_lose(call.engine->streams.own_context,
                         BINADE_E_CONTEXT_DESTROYED);
    binadei_call_leave(&call);
    return BINADE_OK;
}
