/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Events of the driver's, and what it says of captures.
 */
#include "pool/stream/event.h"

#include "pool/base/log.h"
#include "pool/driver/section.h"

binade_status binadei_event_create(const struct binadei_streams *streams,
                                   CUcontext context, CUevent *out)
{
    const struct binadei_driver *driver = streams->driver;
    CUcontext popped;
    bool is_own = context == streams->contexts[0];
    binade_status status =
        is_own ? BINADE_OK : BINADEI_CALL(driver, cuCtxPushCurrent, (context));
    if (status != BINADE_OK)
        return status;
    status =
        BINADEI_CALL(driver, cuEventCreate, (out, CU_EVENT_DISABLE_TIMING));
    if (!is_own)
        (void)driver->cuCtxPopCurrent(&popped);
    return status;
}

CUevent binadei_event_make(const struct binadei_streams *streams,
                           CUcontext context)
{
    CUevent event = NULL;
    return binadei_event_create(streams, context, &event) == BINADE_OK ? event
                                                                       : NULL;
}

bool binadei_is_capturing(const struct binadei_streams *streams,
                          CUstream stream)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult code = streams->driver->cuStreamIsCapturing(stream, &capture);
    return code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (code == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE);
}

binade_status binadei_capture_of(const struct binadei_streams *streams,
                                 CUstream stream, struct binadei_capture *out)
{
    const struct binadei_driver *driver = streams->driver;
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUresult code = driver->cuStreamIsCapturing(stream, &capture);
    *out = (struct binadei_capture){BINADEI_CAPTURE_NONE, 0};
    if (code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
        out->kind = BINADEI_CAPTURE_IMPLICIT;
        return BINADE_OK;
    }
    if (code != CUDA_SUCCESS || capture == CU_STREAM_CAPTURE_STATUS_NONE)
        return binadei_driver_status(BINADEI_ENTRY_cuStreamIsCapturing, code);
    binade_status status =
        BINADEI_CALL(driver, cuStreamGetCaptureInfo, (stream, &capture, &id));
    out->kind = capture == CU_STREAM_CAPTURE_STATUS_ACTIVE
                    ? BINADEI_CAPTURE_ACTIVE
                    : BINADEI_CAPTURE_BROKEN;
    out->id = id;
    return status;
}

static bool is_capture_error(CUresult code)
{
    return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

/* A capture was broken because nobody held a guard: said once. */
static void report_disturbed(const struct binadei_stream_user *user)
{
    /* Edge: none; relaxed: so that it is said once. */
    static atomic_flag is_reported = ATOMIC_FLAG_INIT;
    binadei_stream_tally(user, BINADEI_STREAM_DISTURBED);
    if (!atomic_flag_test_and_set_explicit(&is_reported, memory_order_relaxed))
        binadei_log_or_print(BINADE_LOG_WARNING, "%s",
                             "a context event met a graph capture; hold "
                             "binade_capture_guard_begin() while capturing");
}

binade_status
binadei_event_record_context(const struct binadei_stream_user *user,
                             CUcontext context, CUevent event)
{
    CUresult code = user->streams->driver->cuCtxRecordEvent(context, event);
    if (is_capture_error(code)) {
        report_disturbed(user);
        return BINADE_E_BUSY;
    }
    binade_status status =
        binadei_driver_status(BINADEI_ENTRY_cuCtxRecordEvent, code);
    if (status == BINADE_OK)
        binadei_stream_tally(user, BINADEI_STREAM_CONTEXT_EVENTS);
    return status;
}

binade_status binadei_record_final(struct binadei_streams *streams,
                                   struct binadei_stream_state *stream_state)
{
    CUevent event;
    if (binadei_is_capturing(streams, stream_state->stream))
        return BINADE_E_BUSY;
    binade_status status =
        binadei_event_create(streams, stream_state->context, &event);
    if (status != BINADE_OK)
        return status;
    status = BINADEI_CALL(streams->driver, cuEventRecord,
                          (event, stream_state->stream));
    if (status != BINADE_OK) {
        (void)streams->driver->cuEventDestroy(event);
        return status;
    }
    /* SF.release. */
    atomic_store_explicit(&stream_state->final_event, event,
                          memory_order_release);
    return BINADE_OK;
}

void binadei_event_destroy(const struct binadei_streams *streams, CUevent event)
{
    if (event && !binadei_context_is_lost(streams->own_context))
        (void)streams->driver->cuEventDestroy(event);
}

binade_status binadei_synchronise(const struct binadei_streams *streams)
{
    binade_status first = BINADE_OK;
    /* CX.acquire: the contexts that are counted. */
    unsigned count =
        atomic_load_explicit(&streams->context_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        struct binadei_section section;
        binade_status status =
            i ? binadei_section_enter(streams->driver, streams->contexts[i],
                                      &section)
              : binadei_context_enter(streams->own_context, &section);
        if (status == BINADE_OK) {
            status = BINADEI_CALL(streams->driver, cuCtxSynchronize, ());
            (void)binadei_section_leave(&section);
        }
        if (first == BINADE_OK)
            first = status;
    }
    return first;
}
