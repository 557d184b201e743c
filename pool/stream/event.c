/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Events of the driver's, and what it says of captures.
 */
#include "pool/stream/event.h"

#include "pool/base/failure.h"
#include "pool/base/log.h"
#include "pool/driver/section.h"
#include "pool/stream/capture_guard.h"

moiety_status moietyi_event_create(const struct moietyi_streams *streams,
                                   CUcontext context, CUevent *out)
{
    const struct moietyi_driver *driver = streams->driver;
    bool is_own = context == streams->contexts[0];
    moiety_status status =
        is_own ? MOIETY_OK : MOIETYI_CALL(driver, cuCtxPushCurrent, (context));
    if (status != MOIETY_OK)
        return status;
    status =
        MOIETYI_CALL(driver, cuEventCreate, (out, CU_EVENT_DISABLE_TIMING));
    if (!is_own)
        (void)moietyi_section_pop(driver, context);
    return status;
}

CUevent moietyi_event_make(const struct moietyi_streams *streams,
                           CUcontext context)
{
    CUevent event = NULL;
    return moietyi_event_create(streams, context, &event) == MOIETY_OK ? event
                                                                       : NULL;
}

static bool note_capture(bool is_capture)
{
    if (is_capture)
        moietyi_capture_seen();
    return is_capture;
}

bool moietyi_is_capturing(const struct moietyi_streams *streams,
                          CUstream stream)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult code = streams->driver->cuStreamIsCapturing(stream, &capture);
    return note_capture(
        code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
        (code == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE));
}

moiety_status moietyi_capture_of(const struct moietyi_streams *streams,
                                 CUstream stream, struct moietyi_capture *out)
{
    const struct moietyi_driver *driver = streams->driver;
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUresult code = driver->cuStreamIsCapturing(stream, &capture);
    *out = (struct moietyi_capture){MOIETYI_CAPTURE_NONE, 0};
    if (note_capture(code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)) {
        out->kind = MOIETYI_CAPTURE_IMPLICIT;
        return MOIETY_OK;
    }
    if (code != CUDA_SUCCESS || capture == CU_STREAM_CAPTURE_STATUS_NONE)
        return moietyi_driver_status(MOIETYI_ENTRY_cuStreamIsCapturing, code);
    (void)note_capture(true);
    moiety_status status =
        MOIETYI_CALL(driver, cuStreamGetCaptureInfo, (stream, &capture, &id));
    out->kind = capture == CU_STREAM_CAPTURE_STATUS_ACTIVE
                    ? MOIETYI_CAPTURE_ACTIVE
                    : MOIETYI_CAPTURE_BROKEN;
    out->id = id;
    return status;
}

bool moietyi_met_capture(CUresult code)
{
    return note_capture(code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
                        code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

/* Logs once that a capture was broken because nobody held a guard. */
static void report_disturbed(const struct moietyi_stream_user *user)
{
    /* Edge: none; relaxed: so that it is logged once. */
    static atomic_flag is_reported = ATOMIC_FLAG_INIT;
    moietyi_stream_tally(user, MOIETYI_STREAM_DISTURBED);
    if (!atomic_flag_test_and_set_explicit(&is_reported, memory_order_relaxed))
        moietyi_log_or_print(MOIETY_LOG_WARNING, "%s",
                             "a context event met a graph capture; hold a "
                             "capture guard while capturing");
}

moiety_status
moietyi_event_record_context(const struct moietyi_stream_user *user,
                             CUcontext context, CUevent event)
{
    CUresult code = user->streams->driver->cuCtxRecordEvent(context, event);
    if (moietyi_met_capture(code)) {
        report_disturbed(user);
        return MOIETY_E_CAPTURING;
    }
    moiety_status status =
        moietyi_driver_status(MOIETYI_ENTRY_cuCtxRecordEvent, code);
    if (status == MOIETY_OK)
        moietyi_stream_tally(user, MOIETYI_STREAM_CONTEXT_EVENTS);
    return status;
}

moiety_status moietyi_record_final(struct moietyi_streams *streams,
                                   struct moietyi_stream_state *stream_state)
{
    CUevent event;
    if (moietyi_is_capturing(streams, stream_state->stream))
        return moietyi_fail(MOIETY_E_CAPTURING,
                            "the stream captures a graph: no event stands for "
                            "its work");
    moiety_status status =
        moietyi_event_create(streams, stream_state->context, &event);
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(streams->driver, cuEventRecord,
                          (event, stream_state->stream));
    if (status != MOIETY_OK) {
        (void)streams->driver->cuEventDestroy(event);
        return status;
    }
    /* SF.release. */
    atomic_store_explicit(&stream_state->final_event, event,
                          memory_order_release);
    return MOIETY_OK;
}

void moietyi_event_destroy(const struct moietyi_streams *streams, CUevent event)
{
    if (event && !moietyi_context_is_lost(streams->own_context))
        (void)streams->driver->cuEventDestroy(event);
}
