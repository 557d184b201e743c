/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The entries about streams themselves.
 */
#include <stdio.h>
#include <stdlib.h>

#include "pool/standin/base/handle.h"
#include "pool/standin/entries/engine_api.h"
#include "pool/standin/streams/engine_internal.h"
#include "pool/standin/work/capture.h"

#define PRIORITY_LEAST 0
#define PRIORITY_GREATEST (-5)

static int clamp(int priority)
{
    if (priority > PRIORITY_LEAST)
        return PRIORITY_LEAST;
    return priority < PRIORITY_GREATEST ? PRIORITY_GREATEST : priority;
}

static CUresult stream_entries_create(CUstream *out, unsigned flags,
                                      int priority)
{
    CUresult why;
    if (!out || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    struct CUctx_st *context = context_current(&why);
    if (!context)
        return why;
    struct CUstream_st *stream = stream_make(context->engine, flags);
    stream->priority = clamp(priority);
    stream->handle = handle_make(HANDLE_STREAM, stream);
    if (!stream->handle) {
        stream_end(stream);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = stream->handle;
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
    ENTER(cuStreamCreate, NEEDS_INIT);
    standin_lock();
    return standin_leave(stream_entries_create(out, flags, PRIORITY_LEAST));
}

STANDIN_EXPORT CUresult cuStreamCreateWithPriority(CUstream *out,
                                                   unsigned flags, int priority)
{
    ENTER(cuStreamCreateWithPriority, NEEDS_INIT);
    standin_lock();
    return standin_leave(stream_entries_create(out, flags, priority));
}

static CUresult stream_entries_destroy(CUstream handle)
{
    CUresult why;
    struct CUstream_st *stream = handle_take(HANDLE_STREAM, handle, &why);
    if (stream)
        stream_end(stream);
    return why;
}

DEFINE_VERSIONS(cuStreamDestroy, (CUstream stream), stream_entries_destroy,
                stream)

/* The real driver crashes here. A program that asks a stream which it has
 * destroyed must find out on the stand-in, and not read an answer that no GPU
 * gives. */
static void refuse_destroyed(CUstream handle)
{
    if (!handle_was_freed(HANDLE_STREAM, handle))
        return;
    (void)fprintf(stderr, "moiety stand-in: cuStreamQuery of a stream that was "
                          "destroyed; the real driver crashes\n");
    abort();
}

/* A stream that captures loses its capture by the question, whatever the mode;
 * of any other stream the question is a potentially unsafe call. */
static CUresult stream_entries_query(bool is_per_thread, CUstream handle)
{
    CUresult why;
    refuse_destroyed(handle);
    struct CUstream_st *stream = stream_named(handle, is_per_thread, &why);
    if (stream && queue_await_launchers(stream))
        stream = stream_named(handle, is_per_thread, &why);
    if (!stream)
        return why;
    why = capture_check_wait(stream);
    if (why == CUDA_SUCCESS)
        why = capture_break_unsafe();
    if (why != CUDA_SUCCESS)
        return why;
    if (stream->engine->error != CUDA_SUCCESS)
        return stream->engine->error;
    return stream_is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

DEFINE_BOTH(cuStreamQuery, _ptsz, (CUstream stream), stream_entries_query,
            stream)

static CUresult stream_entries_synchronize(bool is_per_thread, CUstream handle)
{
    CUresult why;
    struct CUstream_st *stream = stream_named(handle, is_per_thread, &why);
    if (!stream)
        return why;
    why = capture_check_wait(stream);
    if (why != CUDA_SUCCESS)
        return why;
    return engine_wait_for(stream->context, stream_join(stream));
}

DEFINE_BOTH(cuStreamSynchronize, _ptsz, (CUstream stream),
            stream_entries_synchronize, stream)

static CUresult get_context(bool is_per_thread, CUstream handle, CUcontext *out)
{
    CUresult why;
    struct CUstream_st *stream = stream_named(handle, is_per_thread, &why);
    if (!stream)
        return why;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = stream->context;
    return CUDA_SUCCESS;
}

DEFINE_BOTH(cuStreamGetCtx, _ptsz, (CUstream stream, CUcontext *out),
            get_context, stream, out)

/* No context of the stand-in is a green one. */
static CUresult get_context_v2(bool is_per_thread, CUstream handle,
                               CUcontext *out, CUgreenCtx *out_green)
{
    CUresult code = get_context(is_per_thread, handle, out);
    if (code == CUDA_SUCCESS && out_green)
        *out_green = NULL;
    return code;
}

DEFINE_BOTH(cuStreamGetCtx_v2, _ptsz,
            (CUstream stream, CUcontext *out, CUgreenCtx *out_green),
            get_context_v2, stream, out, out_green)

/* `breaks`: asked of a stream that captures, it breaks the capture. */
#define DEFINE_GETTER(name, symbol, out_type, expression, breaks)              \
    static CUresult name(bool is_per_thread, CUstream handle, out_type out)    \
    {                                                                          \
        CUresult why;                                                          \
        struct CUstream_st *stream =                                           \
            stream_named(handle, is_per_thread, &why);                         \
        if (!stream)                                                           \
            return why;                                                        \
        if (!out)                                                              \
            return CUDA_ERROR_INVALID_VALUE;                                   \
        if ((breaks) && stream->capture)                                       \
            return capture_refuse(stream);                                     \
        *out = (expression);                                                   \
        return CUDA_SUCCESS;                                                   \
    }                                                                          \
    DEFINE_BOTH(symbol, _ptsz, (CUstream stream, out_type out), name, stream,  \
                out)

DEFINE_GETTER(get_flags, cuStreamGetFlags, unsigned *, stream->flags, true)
DEFINE_GETTER(get_id, cuStreamGetId, unsigned long long *, stream->id, true)
DEFINE_GETTER(get_priority, cuStreamGetPriority, int *, stream->priority, false)
DEFINE_GETTER(get_device, cuStreamGetDevice, int *,
              stream->context->device->ordinal, false)
