/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How a call's work gets on a stream: whether the call may queue now, and what
 * the work comes after.
 */
#include "pool/standin/base/process.h"
#include "pool/standin/streams/engine_internal.h"
#include "pool/standin/work/capture.h"

CUresult launch_refusal(const struct CUstream_st *stream)
{
    if (stream->engine->error != CUDA_SUCCESS)
        return stream->engine->error;
    return capture_check_launch(stream);
}

struct CUstream_st *launch_begin(CUstream handle, bool is_per_thread,
                                 CUresult *why)
{
    struct CUstream_st *stream = stream_named(handle, is_per_thread, why);
    /* After each wait the stream may be gone: look again. What is captured is
     * no launch. */
    while (stream && !stream->capture &&
           (stream->engine->stalls || queue_is_full(stream))) {
        if (stream->engine->stalls)
            standin_wait();
        else
            engine_await_room(handle, is_per_thread);
        stream = stream_named(handle, is_per_thread, why);
    }
    if (stream)
        *why = launch_refusal(stream);
    return *why == CUDA_SUCCESS ? stream : NULL;
}

/* The legacy stream waits for blocking streams, and they for it. */
static void depend_on_neighbours(struct op *op, struct CUstream_st *stream)
{
    struct engine *engine = stream->engine;
    op_depend(op, engine->barrier);
    if (!stream_is_legacy(stream)) {
        if (stream_is_blocking(stream))
            op_depend(op, engine->legacy->tail);
        return;
    }
    for (struct CUstream_st *s = engine->streams; s; s = s->next)
        if (s != stream && stream_is_blocking(s))
            op_depend(op, s->tail);
}

struct op *enqueue(struct CUstream_st *stream, const struct work *work,
                   struct op *also_after)
{
    struct op *op = op_make(stream->engine, work);
    op->stream = stream;
    stream->references++;
    stream->queued_count += !work->takes_no_place;
    op_depend(op, stream->tail);
    op_depend(op, also_after);
    depend_on_neighbours(op, stream);
    op_unref(stream->tail);
    stream->tail = op;
    op->references++;
    op_start(op);
    return op;
}

CUresult launch(struct CUstream_st *stream, const struct work *work,
                struct op **out)
{
    if (out)
        *out = NULL;
    if (stream->capture)
        return capture_add(stream, work);
    struct op *op = enqueue(stream, work, NULL);
    if (out)
        *out = op;
    else
        op_unref(op);
    return CUDA_SUCCESS;
}
