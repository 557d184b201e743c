/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Recording events and waiting for them, on streams and on whole contexts.
 */
#include "pool/standin/base/handle.h"
#include "pool/standin/entries/engine_api.h"
#include "pool/standin/streams/engine_internal.h"
#include "pool/standin/work/capture.h"

/* Thousands of records were put on a held stream of an H200, and none waited. */
static const struct work recording = {.node_type = CU_GRAPH_NODE_TYPE_EMPTY,
                                      .takes_no_place = true};

/* `event` now stands for `op`; takes over its reference. */
static void event_order_name(struct CUevent_st *event, struct op *op)
{
    op_unref(event->op);
    event->op = op;
    event->capture_id = 0;
}

static CUresult record_captured(const struct CUstream_st *stream,
                                struct CUevent_st *event, unsigned flags)
{
    if (flags & CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_NOT_SUPPORTED;
    capture_record(stream, event);
    return CUDA_SUCCESS;
}

static CUresult record(bool is_per_thread, CUevent handle,
                       CUstream stream_handle, unsigned flags)
{
    CUresult why;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUstream_st *stream =
        launch_begin(stream_handle, is_per_thread, &why);
    struct CUevent_st *event =
        stream ? handle_object(HANDLE_EVENT, handle, &why) : NULL;
    if (!event)
        return why;
    if (event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture)
        return record_captured(stream, event, flags);
    if (flags) /* external means something to a capture only */
        return CUDA_ERROR_ILLEGAL_STATE;
    struct op *op = enqueue(stream, &recording, NULL);
    event_order_name(event, engine_delay_event(stream->engine, stream, op));
    return CUDA_SUCCESS;
}

DEFINE_BOTH(cuEventRecord, _ptsz, (CUevent event, CUstream stream), record,
            event, stream, CU_EVENT_RECORD_DEFAULT)
DEFINE_BOTH(cuEventRecordWithFlags, _ptsz,
            (CUevent event, CUstream stream, unsigned flags), record, event,
            stream, flags)

static CUresult event_order_wait(bool is_per_thread, CUstream stream_handle,
                                 CUevent handle, unsigned flags)
{
    CUresult why;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUstream_st *stream =
        launch_begin(stream_handle, is_per_thread, &why);
    const struct CUevent_st *event =
        stream ? handle_object(HANDLE_EVENT, handle, &why) : NULL;
    if (!event)
        return why;
    if (flags)
        return stream->capture ? CUDA_ERROR_NOT_SUPPORTED
                               : CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture || event->capture_id)
        return capture_wait(stream, event);
    if (!op_is_done(event->op))
        op_unref(enqueue(stream, &op_marker, event->op));
    return CUDA_SUCCESS;
}

DEFINE_BOTH(cuStreamWaitEvent, _ptsz,
            (CUstream stream, CUevent event, unsigned flags), event_order_wait,
            stream, event, flags)

/* What both context entries ask; the event, or NULL and *why. */
static struct CUevent_st *event_order_begin(CUcontext context, CUevent handle,
                                            CUresult *why)
{
    *why = context_check(context);
    if (*why == CUDA_SUCCESS)
        *why = context->engine->error;
    if (*why == CUDA_SUCCESS)
        *why = capture_break_context(context);
    return *why == CUDA_SUCCESS ? handle_object(HANDLE_EVENT, handle, why)
                                : NULL;
}

static CUresult event_order_record_context(CUcontext context, CUevent handle)
{
    CUresult why;
    struct CUevent_st *event = event_order_begin(context, handle, &why);
    if (!event)
        return why;
    if (event->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    struct engine *engine = context->engine;
    event_order_name(event,
                     engine_delay_event(engine, NULL, engine_join(engine)));
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuCtxRecordEvent(CUcontext context, CUevent event)
{
    ENTER(cuCtxRecordEvent, NEEDS_INIT);
    standin_lock();
    return standin_leave(event_order_record_context(context, event));
}

static CUresult wait_context(CUcontext context, CUevent handle)
{
    CUresult why;
    const struct CUevent_st *event = event_order_begin(context, handle, &why);
    if (!event)
        return why;
    if (event->capture_id)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (op_is_done(event->op))
        return CUDA_SUCCESS;
    struct engine *engine = context->engine;
    struct op *both = op_make(engine, &op_marker);
    op_depend(both, engine->barrier);
    op_depend(both, event->op);
    op_unref(engine->barrier);
    engine->barrier = both;
    op_start(both);
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuCtxWaitEvent(CUcontext context, CUevent event)
{
    ENTER(cuCtxWaitEvent, NEEDS_INIT);
    standin_lock();
    return standin_leave(wait_context(context, event));
}
