/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Life of an operation: started, ended, and what its end sets going.
 * Nothing here recurses: operations that may start are put in one queue, which
 * the outermost caller empties, so a chain may be as long as memory allows.
 */
#include <stdlib.h>

#include "pool/standin/base/process.h"
#include "pool/standin/work/op.h"

static struct op *settle_first, **settle_last = &settle_first;
static bool is_settling;
/* Threads that wait for ends: without any, an end need not wake all waiters. */
static unsigned waiter_count;

bool op_is_done(const struct op *op)
{
    return !op || op->state == OP_DONE;
}

void op_depend(struct op *op, struct op *other)
{
    if (op_is_done(other))
        return;
    struct op_edge *edge = engine_alloc(sizeof(*edge));
    edge->waiter = op;
    edge->next = other->edges;
    other->edges = edge;
    op->references++;
    op->unmet_count++;
}

static void met(struct op *op)
{
    if (op->state != OP_WAITING || --op->unmet_count != 0)
        return;
    op->next = NULL;
    *settle_last = op;
    settle_last = &op->next;
}

static void leave_stream(struct op *op)
{
    struct CUstream_st *stream = op->stream;
    op->stream = NULL;
    if (!stream)
        return;
    stream->queued_count -= !op->work.takes_no_place;
    if (stream->parked == op)
        stream->parked = NULL;
    if (stream->tail == op) {
        stream->tail = NULL;
        op_unref(op);
    }
    stream_unref(stream);
}

static void op_leave_engine(struct op *op)
{
    if (op->live_previous)
        op->live_previous->live_next = op->live_next;
    else
        op->engine->live = op->live_next;
    if (op->live_next)
        op->live_next->live_previous = op->live_previous;
    op->engine = NULL;
}

static void release_waiters(struct op *op)
{
    while (op->edges) {
        struct op_edge *edge = op->edges;
        op->edges = edge->next;
        met(edge->waiter);
        op_unref(edge->waiter);
        free(edge);
    }
}

static void op_end_work(struct op *op, CUresult code)
{
    op->state = OP_DONE;
    op->done_ns = engine_now_ns();
    if (code != CUDA_SUCCESS && op->engine->error == CUDA_SUCCESS)
        op->engine->error = code;
    op_leave_engine(op);
    leave_stream(op);
    if (op->work.drop)
        op->work.drop(&op->work);
    release_waiters(op);
    op_unref(op);
    if (waiter_count)
        standin_notify();
}

/* All dependencies are met. */
static void dispatch(struct op *op)
{
    CUresult code = CUDA_SUCCESS;
    if (op->stream && op->stream->hold_count)
        op->stream->parked = op;
    else if (op->work.test && !op->work.test(&op->work, &code))
        watcher_queue(op);
    else if (op->work.test || !op->work.run)
        op_end_work(op, code);
    else
        worker_queue(op);
}

static void op_settle(void)
{
    if (is_settling)
        return;
    is_settling = true;
    while (settle_first) {
        struct op *op = settle_first;
        settle_first = op->next;
        if (!settle_first)
            settle_last = &settle_first;
        dispatch(op);
    }
    is_settling = false;
}

void op_start(struct op *op)
{
    met(op);
    op_settle();
}

void op_end(struct op *op, CUresult code)
{
    op_end_work(op, code);
    op_settle();
}

void op_cancel(struct op *op)
{
    if (op->state != OP_WAITING && op->state != OP_READY)
        return;
    if (!op->work.must_run) {
        op_end_work(op, CUDA_SUCCESS);
    } else if (op->state == OP_WAITING) {
        if (op->stream && op->stream->parked == op)
            op->stream->parked = NULL;
        worker_queue(op);
    }
    op_settle();
}

void op_unpark(struct CUstream_st *stream)
{
    struct op *op = stream->parked;
    if (!op)
        return;
    stream->parked = NULL;
    dispatch(op);
    op_settle();
}

void op_wait_for_any(void)
{
    waiter_count++;
    standin_wait();
    waiter_count--;
}

void op_wait(const struct op *op)
{
    while (!op_is_done(op))
        op_wait_for_any();
}
