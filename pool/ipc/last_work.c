/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The event behind an import's last work. The rules are those of a pool's free
 * (docs/streams.md): a stream that captures is refused, and all work of a
 * context is asked for only while nobody holds a capture guard.
 */
#include "pool/base/failure.h"
#include "pool/ipc/closings.h"
#include "pool/ipc/opener.h"
#include "pool/stream/capture_guard.h"

static bool last_work_is_created(moiety_stream stream)
{
    return stream && stream != MOIETY_STREAM_LEGACY &&
           stream != MOIETY_STREAM_PER_THREAD;
}

static moiety_status make_event(const struct moietyi_driver *driver,
                                CUevent *out)
{
    return MOIETYI_CALL(driver, cuEventCreate, (out, CU_EVENT_DISABLE_TIMING));
}

static moiety_status last_work_refuse_capture(void)
{
    return moietyi_fail(MOIETY_E_CAPTURING,
                        "a graph is being captured: the work behind the close "
                        "cannot be told from it");
}

/* An event recorded now would become part of the graph. */
static moiety_status check_capture(const struct moietyi_driver *driver,
                                   CUstream stream)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult code = driver->cuStreamIsCapturing(stream, &capture);
    if (code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
        (code == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE))
        return last_work_refuse_capture();
    return moietyi_driver_status(MOIETYI_ENTRY_cuStreamIsCapturing, code);
}

/* The stream's context is current. */
static moiety_status record_here(const struct moietyi_driver *driver,
                                 CUstream stream, CUevent *out)
{
    CUevent event = NULL;
    moiety_status status = check_capture(driver, stream);
    if (status == MOIETY_OK)
        status = make_event(driver, &event);
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(driver, cuEventRecord, (event, stream));
    if (status == MOIETY_OK)
        *out = event;
    else
        (void)driver->cuEventDestroy(event);
    return status;
}

static moiety_status record_stream(const struct moietyi_driver *driver,
                                   CUstream stream, CUevent *out)
{
    CUcontext context;
    if (!last_work_is_created(stream))
        return record_here(driver, stream ? stream : CU_STREAM_LEGACY, out);
    moiety_status status =
        MOIETYI_CALL(driver, cuStreamGetCtx, (stream, &context));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuCtxPushCurrent, (context));
    if (status != MOIETY_OK)
        return status;
    status = record_here(driver, stream, out);
    (void)moietyi_section_pop(driver, context);
    return status;
}

static moiety_status
last_work_record_context(const struct moietyi_driver *driver, CUcontext context,
                         CUevent *out)
{
    CUevent event = NULL;
    /* An old driver: all that can be done is to wait. */
    if (!driver->cuCtxRecordEvent)
        return MOIETYI_CALL(driver, cuCtxSynchronize, ());
    moiety_status status = check_capture(driver, CU_STREAM_LEGACY);
    if (status == MOIETY_OK)
        status = make_event(driver, &event);
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(driver, cuCtxRecordEvent, (context, event));
    if (status == MOIETY_OK)
        *out = event;
    else
        (void)driver->cuEventDestroy(event);
    return status;
}

static moiety_status record_any(const struct moietyi_driver *driver,
                                CUcontext context, CUevent *out)
{
    if (!moietyi_capture_guard_recorder_begin())
        return last_work_refuse_capture();
    moiety_status status = last_work_record_context(driver, context, out);
    moietyi_capture_guard_recorder_end();
    return status;
}

moiety_status moietyi_closing_record(const struct moietyi_driver *driver,
                                     const struct moietyi_opening *opening,
                                     moiety_stream stream, CUevent *out)
{
    struct moietyi_section section;
    *out = NULL;
    if (stream == MOIETY_STREAM_DONE)
        return MOIETY_OK;
    moiety_status status = moietyi_opener_enter(driver, opening, &section);
    if (status != MOIETY_OK)
        return status;
    status = stream == MOIETY_STREAM_ANY
                 ? record_any(driver, opening->importer.context, out)
                 : record_stream(driver, stream, out);
    (void)moietyi_section_leave(&section);
    return status;
}
