/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Stream objects: made, found by handle and by thread, waited for and ended.
 */
#include <pthread.h>

#include "pool/standin/base/handle.h"
#include "pool/standin/base/process.h"
#include "pool/standin/streams/engine_internal.h"
#include "pool/standin/work/capture.h"

static uint64_t last_id;

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

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

void stream_end(struct CUstream_st *stream)
{
    stream->handle = NULL;
    capture_forget_stream(stream);
    stream->hold_count = 0;
    op_unpark(stream);
    stream_unref(stream);
}

static void end_per_thread(struct engine *engine, uint64_t serial)
{
    struct CUstream_st **link = &engine->per_thread;
    for (; *link; link = &(*link)->next_per_thread) {
        struct CUstream_st *stream = *link;
        if (stream->thread_serial != serial)
            continue;
        *link = stream->next_per_thread;
        stream_end(stream);
        return;
    }
}

static void at_thread_exit(void *serial)
{
    if (standin_is_dead())
        return;
    standin_lock();
    for (struct CUctx_st *c = context_first(); c; c = c->next)
        if (c->engine)
            end_per_thread(c->engine, (uint64_t)(uintptr_t)serial);
    standin_unlock();
}

static void make_key(void)
{
    pthread_key_create(&exit_key, at_thread_exit);
}

/* Arranges that the thread's default streams end with it. */
static void watch_exit(void)
{
    pthread_once(&exit_once, make_key);
    pthread_setspecific(exit_key, (void *)(uintptr_t)thread_state()->serial);
}

/* The calling thread's default stream in `engine`. */
static struct CUstream_st *stream_per_thread(struct engine *engine)
{
    uint64_t serial = thread_state()->serial;
    for (struct CUstream_st *s = engine->per_thread; s; s = s->next_per_thread)
        if (s->thread_serial == serial)
            return s;
    struct CUstream_st *stream = stream_make(engine, CU_STREAM_DEFAULT);
    stream->thread_serial = serial;
    stream->next_per_thread = engine->per_thread;
    engine->per_thread = stream;
    watch_exit();
    return stream;
}

struct CUstream_st *engine_stream(struct CUctx_st *context, CUstream handle,
                                  bool is_per_thread, CUresult *why)
{
    *why = CUDA_SUCCESS;
    if (!context->engine)
        *why = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else if (handle == CU_STREAM_PER_THREAD || (!handle && is_per_thread))
        return stream_per_thread(context->engine);
    else if (!handle || handle == CU_STREAM_LEGACY)
        return context->engine->legacy;
    else
        return handle_object(HANDLE_STREAM, handle, why);
    return NULL;
}

struct CUstream_st *stream_named(CUstream handle, bool is_per_thread,
                                 CUresult *why)
{
    if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD)
        return handle_object(HANDLE_STREAM, handle, why);
    struct CUctx_st *context = context_current(why);
    return context ? engine_stream(context, handle, is_per_thread, why) : NULL;
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
