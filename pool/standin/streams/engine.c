/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The engine of one context: how all of its work is waited for and ended, and
 * what the fault plan and the control functions do to it.
 */
#include "pool/standin/streams/engine.h"

#include <stdlib.h>
#include <string.h>

#include "pool/standin/base/handle.h"
#include "pool/standin/base/process.h"
#include "pool/standin/settings/fault.h"
#include "pool/standin/streams/engine_internal.h"
#include "pool/standin/work/capture.h"
#include "pool/standin/work/graph.h"

CUresult engine_context_init(struct CUctx_st *context)
{
    CUresult code = workers_start(op_end);
    if (code == CUDA_SUCCESS)
        code = watcher_start(op_end);
    if (code != CUDA_SUCCESS)
        return code;
    struct engine *engine = engine_alloc(sizeof(*engine));
    engine->context = context;
    engine->legacy = stream_make(engine, CU_STREAM_DEFAULT);
    context->engine = engine;
    return CUDA_SUCCESS;
}

static struct op *first_cancellable(const struct engine *engine)
{
    struct op *op = engine->live;
    while (op && op->state != OP_WAITING &&
           (op->state != OP_READY || op->work.must_run))
        op = op->live_next;
    return op;
}

/* Drops what does not run yet, waits for what does. Work of other contexts
 * that waits for what is dropped goes on. */
static void end_all_work(struct engine *engine)
{
    struct op *op;
    while ((op = first_cancellable(engine)))
        op_cancel(op);
    while ((op = engine->live)) {
        op->references++;
        op_wait(op);
        op_unref(op);
    }
}

void event_free(struct CUevent_st *event)
{
    op_unref(event->op);
    node_set_free(&event->capture_tail);
    free(event);
}

/* The context is gone: its events go, their handles keep saying why. */
static void orphan_events(const struct CUctx_st *context)
{
    struct CUevent_st *event;
    for (uint32_t cursor = 0; (event = handle_next(HANDLE_EVENT, &cursor));) {
        if (event->context != context)
            continue;
        handle_orphan(HANDLE_EVENT, event->handle);
        event_free(event);
    }
}

/* From here on no call finds them. */
static void orphan_streams(struct engine *engine)
{
    for (struct CUstream_st *s = engine->streams; s; s = s->next) {
        capture_forget_stream(s);
        if (s->handle)
            handle_orphan(HANDLE_STREAM, s->handle);
        s->handle = NULL;
    }
}

void engine_context_fini(struct CUctx_st *context)
{
    struct engine *engine = context->engine;
    if (!engine)
        return;
    capture_forget_context(context);
    orphan_events(context);
    orphan_streams(engine);
    /* A reset primary context may get its next engine while the lock is
     * released below. */
    context->engine = NULL;
    end_all_work(engine);
    /* No work is left, so only its owner still refers to a stream. */
    while (engine->streams)
        stream_end(engine->streams);
    while (engine->stalls)
        standin_wait();
    op_unref(engine->barrier);
    op_unref(engine->late);
    op_unref(engine->foreign);
    free(engine);
}

struct op *engine_join(struct engine *engine)
{
    struct op *op = op_make(engine, &op_marker);
    for (struct CUstream_st *s = engine->streams; s; s = s->next)
        op_depend(op, s->tail);
    op_depend(op, engine->late);
    op_depend(op, engine->foreign);
    op_start(op);
    return op;
}

void engine_keep_busy(struct engine *engine, struct op *op)
{
    struct op *all = op_make(engine, &op_marker);
    op_depend(all, engine->foreign);
    op_depend(all, op);
    op_unref(engine->foreign);
    engine->foreign = all;
    op_start(all);
}

static uint64_t wait_count;

uint64_t engine_wait_count(void)
{
    return wait_count;
}

/* What the plan says of a call that has to wait for `op`. */
static CUresult engine_begin_wait(const struct op *op)
{
    if (op_is_done(op))
        return CUDA_SUCCESS;
    wait_count++;
    return fault_wait_code();
}

CUresult engine_wait_for(struct CUctx_st *context, struct op *op)
{
    CUresult code = engine_begin_wait(op);
    if (code != CUDA_SUCCESS) {
        op_unref(op);
        return code;
    }
    op_wait(op);
    op_unref(op);
    return context->engine ? context->engine->error
                           : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult engine_synchronize(struct CUctx_st *context)
{
    CUresult code = capture_break_context(context);
    if (code != CUDA_SUCCESS)
        return code;
    return engine_wait_for(context, engine_join(context->engine));
}

CUresult engine_drain_and_stall(struct CUctx_st *context)
{
    struct engine *engine = context->engine;
    if (!engine)
        return CUDA_SUCCESS;
    struct op *all = engine_join(engine);
    CUresult code = engine_begin_wait(all);
    if (code == CUDA_SUCCESS) {
        engine->stalls++;
        op_wait(all);
        engine->stalls--;
        standin_notify();
    }
    op_unref(all);
    return code;
}

static bool engine_is_due(struct work *work, CUresult *out_code)
{
    uint64_t now = engine_now_ns();
    struct timer *timer = &work->as.timer;
    if (timer->due_ns == 0)
        timer->due_ns = now + timer->delay_ns;
    *out_code = CUDA_SUCCESS;
    return now >= timer->due_ns;
}

static void replace(struct op **place, struct op *op)
{
    op_unref(*place);
    *place = op;
    op->references++;
}

struct op *engine_delay_event(struct engine *engine, struct CUstream_st *stream,
                              struct op *op)
{
    uint64_t delay_ns = (uint64_t)fault_event_late_us() * 1000;
    if (delay_ns == 0)
        return op;
    const struct work wait = {.test = engine_is_due,
                              .node_type = CU_GRAPH_NODE_TYPE_EMPTY,
                              .as.timer = {.delay_ns = delay_ns}};
    struct op *late = op_make(engine, &wait);
    op_depend(late, op);
    op_depend(late, engine->late);
    op_unref(op);
    replace(&engine->late, late);
    if (stream)
        replace(&stream->late, late);
    op_start(late);
    return late;
}

CUresult engine_hold(CUstream handle)
{
    CUresult why;
    struct CUstream_st *stream = stream_named(handle, false, &why);
    if (stream)
        stream->hold_count++;
    return why;
}

CUresult engine_release(CUstream handle)
{
    CUresult why;
    struct CUstream_st *stream = stream_named(handle, false, &why);
    if (!stream)
        return why;
    if (stream->hold_count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (--stream->hold_count == 0)
        op_unpark(stream);
    return CUDA_SUCCESS;
}

int64_t engine_live(const char *kind)
{
    if (strcmp(kind, "streams") == 0)
        return handle_live(HANDLE_STREAM);
    if (strcmp(kind, "events") == 0)
        return handle_live(HANDLE_EVENT);
    if (strcmp(kind, "graphs") == 0)
        return handle_live(HANDLE_GRAPH) + handle_live(HANDLE_EXEC);
    if (strcmp(kind, "blocked") == 0)
        return queue_blocked();
    return -1;
}
