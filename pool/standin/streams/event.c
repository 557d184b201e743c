/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Event objects: made, asked, waited for and destroyed. An event is a name for
 * one operation; recording it again gives the name to another one.
 */
#include <stdlib.h>

#include "pool/standin/base/handle.h"
#include "pool/standin/entries/engine_api.h"
#include "pool/standin/streams/engine_internal.h"
#include "pool/standin/work/capture.h"

#define FLAGS_ALL                                                              \
    ((unsigned)CU_EVENT_BLOCKING_SYNC | (unsigned)CU_EVENT_DISABLE_TIMING |    \
     (unsigned)CU_EVENT_INTERPROCESS)
#define NS_PER_MS 1e6

static bool flags_are_good(unsigned flags)
{
    return !(flags & ~FLAGS_ALL) && (!(flags & CU_EVENT_INTERPROCESS) ||
                                     (flags & CU_EVENT_DISABLE_TIMING));
}

static CUresult event_create(CUevent *out, unsigned flags)
{
    CUresult why;
    if (!out || !flags_are_good(flags))
        return CUDA_ERROR_INVALID_VALUE;
    struct CUctx_st *context = engine_await_launchers(&why);
    if (!context)
        return why;
    struct CUevent_st *event = calloc(1, sizeof(*event));
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->context = context;
    event->flags = flags;
    event->handle = handle_make(HANDLE_EVENT, event);
    if (!event->handle) {
        free(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = event->handle;
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    ENTER(cuEventCreate, NEEDS_INIT);
    standin_lock();
    return standin_leave(event_create(out, flags));
}

static CUresult event_destroy(CUevent handle)
{
    CUresult why;
    struct CUevent_st *event = handle_take(HANDLE_EVENT, handle, &why);
    if (event)
        event_free(event);
    return why;
}

DEFINE_VERSIONS(cuEventDestroy, (CUevent event), event_destroy, event)

/* The event behind `handle`, if it may be asked and its context is sound. */
static struct CUevent_st *event_find(CUevent handle, CUresult *why)
{
    struct CUevent_st *event = handle_object(HANDLE_EVENT, handle, why);
    if (!event)
        return NULL;
    *why = event->capture_id ? CUDA_ERROR_CAPTURED_EVENT
                             : event->context->engine->error;
    return *why == CUDA_SUCCESS ? event : NULL;
}

static CUresult event_query(CUevent handle)
{
    CUresult why;
    const struct CUevent_st *event = event_find(handle, &why);
    if (why == CUDA_ERROR_CAPTURED_EVENT)
        return capture_query(handle_object(HANDLE_EVENT, handle, &why));
    return event && !op_is_done(event->op) ? CUDA_ERROR_NOT_READY : why;
}

STANDIN_EXPORT CUresult cuEventQuery(CUevent handle)
{
    ENTER(cuEventQuery, NEEDS_INIT | BREAKS_CAPTURE);
    standin_lock();
    return standin_leave(event_query(handle));
}

STANDIN_EXPORT CUresult cuEventSynchronize(CUevent handle)
{
    ENTER(cuEventSynchronize, NEEDS_INIT | BREAKS_CAPTURE);
    CUresult why;
    standin_lock();
    const struct CUevent_st *event = event_find(handle, &why);
    if (why == CUDA_ERROR_CAPTURED_EVENT)
        why = CUDA_ERROR_INVALID_VALUE; /* unlike a query */
    if (event && event->op) {
        event->op->references++;
        why = engine_wait_for(event->context, event->op);
    }
    return standin_leave(why);
}

static bool has_time(const struct CUevent_st *event)
{
    return event->op && !(event->flags & CU_EVENT_DISABLE_TIMING);
}

static CUresult elapsed(float *out_ms, CUevent from, CUevent to)
{
    CUresult why;
    if (!out_ms)
        return CUDA_ERROR_INVALID_HANDLE; /* as the driver says it */
    const struct CUevent_st *first = event_find(from, &why);
    const struct CUevent_st *last = first ? event_find(to, &why) : NULL;
    if (!last)
        return why;
    if (!has_time(first) || !has_time(last))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!op_is_done(first->op) || !op_is_done(last->op))
        return CUDA_ERROR_NOT_READY;
    int64_t ns = (int64_t)(last->op->done_ns - first->op->done_ns);
    *out_ms = (float)((double)ns / NS_PER_MS);
    return CUDA_SUCCESS;
}

DEFINE_VERSIONS(cuEventElapsedTime, (float *out_ms, CUevent from, CUevent to),
                elapsed, out_ms, from, to)
