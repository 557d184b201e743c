/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Stream objects: made, found by thread, waited for and ended.
 */
#include <stdlib.h>

#include "pool/standin/graphs/capture.h"
#include "pool/standin/streams/engine_internal.h"

static uint64_t last_id;

struct CUstream_st *stream_make(struct engine *engine, unsigned flags)
{
    struct CUstream_st *stream = engine_alloc(sizeof(*stream));
    stream->references = 1;
    stream->engine = engine;
    stream->context = engine->context;
    stream->flags = flags;
    stream->id = ++last_id;
    stream->next = engine->streams;
    if (engine->streams)
        engine->streams->previous = stream;
    engine->streams = stream;
    return stream;
}

static void unlink_from_engine(struct CUstream_st *stream)
{
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        stream->engine->streams = stream->next;
    if (stream->next)
        stream->next->previous = stream->previous;
}

void stream_unref(struct CUstream_st *stream)
{
    if (--stream->references != 0)
        return;
    unlink_from_engine(stream);
    op_unref(stream->late);
    free(stream->capture_tail.nodes);
    free(stream);
}

void stream_end(struct CUstream_st *stream)
{
    stream->handle = NULL;
    capture_forget_stream(stream);
    stream->hold_count = 0;
    op_unpark(stream);
    stream_unref(stream);
}

bool stream_is_legacy(const struct CUstream_st *stream)
{
    return stream == stream->engine->legacy;
}

bool stream_is_blocking(const struct CUstream_st *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

struct CUstream_st *stream_per_thread(struct engine *engine)
{
    uint64_t serial = thread_state()->serial;
    for (struct CUstream_st *s = engine->per_thread; s; s = s->next_per_thread)
        if (s->thread_serial == serial)
            return s;
    struct CUstream_st *stream = stream_make(engine, CU_STREAM_DEFAULT);
    stream->thread_serial = serial;
    stream->next_per_thread = engine->per_thread;
    engine->per_thread = stream;
    thread_watch_exit();
    return stream;
}

bool stream_is_idle(const struct CUstream_st *stream)
{
    if (!op_is_done(stream->tail) || !op_is_done(stream->late))
        return false;
    if (!stream_is_legacy(stream))
        return true;
    for (struct CUstream_st *s = stream->engine->streams; s; s = s->next)
        if (stream_is_blocking(s) && !op_is_done(s->tail))
            return false;
    return true;
}

struct op *stream_join(const struct CUstream_st *stream)
{
    if (stream_is_idle(stream))
        return NULL;
    struct op *op = op_make(stream->engine, &op_marker);
    op_depend(op, stream->tail);
    op_depend(op, stream->late);
    if (stream_is_legacy(stream))
        for (struct CUstream_st *s = stream->engine->streams; s; s = s->next)
            if (stream_is_blocking(s))
                op_depend(op, s->tail);
    op_start(op);
    return op;
}
