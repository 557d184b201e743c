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

static bool last_work_is_created(binade_stream stream)
{
    return stream && stream != BINADE_STREAM_LEGACY &&
           stream != BINADE_STREAM_PER_THREAD;
}

static binade_status make_event(const struct binadei_driver *driver,
                                CUevent *out)
{
    return BINADEI_CALL(driver, cuEventCreate, (out, CU_EVENT_DISABLE_TIMING));
}

static binade_status last_work_refuse_capture(void)
{
    return binadei_fail(BINADE_E_BUSY,
                        "a graph is being captured: the work behind the close "
                        "cannot be told from it");
}

/* An event recorded now would become part of the graph. */
static binade_status check_capture(const struct binadei_driver *driver,
                                   CUstream stream)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult code = driver->cuStreamIsCapturing(stream, &capture);
    if (code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
        (code == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE))
        return last_work_refuse_capture();
    return binadei_driver_status(BINADEI_ENTRY_cuStreamIsCapturing, code);
}

/* The stream's context is current. */
static binade_status record_here(const struct binadei_driver *driver,
                                 CUstream stream, CUevent *out)
{
    CUevent event = NULL;
    binade_status status = check_capture(driver, stream);
    if (status == BINADE_OK)
        status = make_event(driver, &event);
    if (status != BINADE_OK)
        return status;
    status = BINADEI_CALL(driver, cuEventRecord, (event, stream));
    if (status == BINADE_OK)
        *out = event;
    else
        (void)driver->cuEventDestroy(event);
    return status;
}

static binade_status record_stream(const struct binadei_driver *driver,
                                   CUstream stream, CUevent *out)
{
    CUcontext context;
    CUcontext popped;
    if (!last_work_is_created(stream))
        return record_here(driver, stream ? stream : CU_STREAM_LEGACY, out);
    binade_status status =
        BINADEI_CALL(driver, cuStreamGetCtx, (stream, &context));
    if (status == BINADE_OK)
        status = BINADEI_CALL(driver, cuCtxPushCurrent, (context));
    if (status != BINADE_OK)
        return status;
    status = record_here(driver, stream, out);
    if (driver->cuCtxPopCurrent(&popped) != CUDA_SUCCESS)
        (void)driver->cuCtxPopCurrent(&popped);
    return status;
}

static binade_status
last_work_record_context(const struct binadei_driver *driver, CUcontext context,
                         CUevent *out)
{
    CUevent event = NULL;
    /* An old driver: all that can be done is to wait. */
    if (!driver->cuCtxRecordEvent)
        return BINADEI_CALL(driver, cuCtxSynchronize, ());
    binade_status status = check_capture(driver, CU_STREAM_LEGACY);
    if (status == BINADE_OK)
        status = make_event(driver, &event);
    if (status != BINADE_OK)
        return status;
    status = BINADEI_CALL(driver, cuCtxRecordEvent, (context, event));
    if (status == BINADE_OK)
        *out = event;
    else
        (void)driver->cuEventDestroy(event);
    return status;
}

static binade_status record_any(const struct binadei_driver *driver,
                                CUcontext context, CUevent *out)
{
    if (!binadei_capture_guard_recorder_begin())
        return last_work_refuse_capture();
    binade_status status = last_work_record_context(driver, context, out);
    binadei_capture_guard_recorder_end();
    return status;
}

binade_status binadei_closing_record(const struct binadei_driver *driver,
                                     const struct binadei_opening *opening,
                                     binade_stream stream, CUevent *out)
{
    struct binadei_section section;
    *out = NULL;
    if (stream == BINADE_STREAM_DONE)
        return BINADE_OK;
    binade_status status = binadei_opener_enter(driver, opening, &section);
    if (status != BINADE_OK)
        return status;
    status = stream == BINADE_STREAM_ANY
                 ? record_any(driver, opening->importer.context, out)
                 : record_stream(driver, stream, out);
    (void)binadei_section_leave(&section);
    return status;
}
