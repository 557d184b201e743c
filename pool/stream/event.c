/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Events of the driver's, and what it says of captures.
 */
#include "pool/stream/event.h"

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/log.h"
#include "pool/driver/section.h"
#include "pool/stream/capture_guard.h"

#define NAP_NS 20000L
#define NAP_MOST_NS 500000L

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

static bool is_capture_error(CUresult code)
{
    return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

/* A capture was broken because nobody held a guard: said once. */
static void report_disturbed(const struct moietyi_stream_user *user)
{
    /* Edge: none; relaxed: so that it is said once. */
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
    if (note_capture(is_capture_error(code))) {
        report_disturbed(user);
        return MOIETY_E_BUSY;
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
        return MOIETY_E_BUSY;
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

static moiety_status enter_context(const struct moietyi_streams *streams,
                                   unsigned i, struct moietyi_section *out)
{
    return i ? moietyi_section_enter(streams->driver, streams->contexts[i], out)
             : moietyi_context_enter(streams->own_context, out);
}

static unsigned known_contexts(const struct moietyi_streams *streams)
{
    /* CX.acquire: the contexts that are counted. */
    return atomic_load_explicit(&streams->context_count, memory_order_acquire);
}

static moiety_status synchronise(const struct moietyi_streams *streams,
                                 unsigned i)
{
    struct moietyi_section section;
    moiety_status status = enter_context(streams, i, &section);
    if (status != MOIETY_OK)
        return status;
    CUresult code = streams->driver->cuCtxSynchronize();
    (void)note_capture(is_capture_error(code));
    status = moietyi_driver_status(MOIETYI_ENTRY_cuCtxSynchronize, code);
    (void)moietyi_section_leave(&section);
    return status;
}

moiety_status moietyi_synchronise(const struct moietyi_streams *streams)
{
    moiety_status first = MOIETY_OK;
    for (unsigned i = 0; i < known_contexts(streams); i++) {
        moiety_status status = synchronise(streams, i);
        if (first == MOIETY_OK)
            first = status;
    }
    return first;
}

static moiety_status refuse_guard(void)
{
    return moietyi_fail(MOIETY_E_BUSY,
                        "a capture guard is held: waiting for the context's "
                        "work would break the capture");
}

static moiety_status refuse_capture(void)
{
    return moietyi_fail(MOIETY_E_BUSY,
                        "a graph is captured in the context, without a guard: "
                        "its work cannot be waited for");
}

/* Within a section of the context. A guard waits for this, so it waits for
 * nothing. */
static moiety_status record_behind(struct moietyi_streams *streams, unsigned i,
                                   CUevent event)
{
    moietyi_counter counts[MOIETYI_STREAM_COUNTS] = {0};
    const struct moietyi_stream_user nobody = {.streams = streams,
                                               .counts = counts};
    /* A capture on a blocking stream would be lost. */
    if (moietyi_is_capturing(streams, MOIETY_STREAM_LEGACY))
        return refuse_capture();
    if (!moietyi_capture_guard_recorder_begin())
        return refuse_guard();
    moiety_status status =
        moietyi_event_record_context(&nobody, streams->contexts[i], event);
    moietyi_capture_guard_recorder_end();
    return status == MOIETY_E_BUSY ? refuse_capture() : status;
}

/* An event behind all that the context was given. */
static moiety_status record_last(struct moietyi_streams *streams, unsigned i,
                                 CUevent *out)
{
    struct moietyi_section section;
    moiety_status status = enter_context(streams, i, &section);
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(streams->driver, cuEventCreate,
                          (out, CU_EVENT_DISABLE_TIMING));
    if (status == MOIETY_OK)
        status = record_behind(streams, i, *out);
    (void)moietyi_section_leave(&section);
    return status;
}

static moiety_status ask_last(const struct moietyi_streams *streams,
                              CUevent event, bool *out_is_over)
{
    struct moietyi_section section;
    moiety_status status =
        moietyi_context_watch(streams->own_context, &section);
    if (status != MOIETY_OK)
        return status;
    CUresult code = streams->driver->cuEventQuery(event);
    *out_is_over = code == CUDA_SUCCESS;
    if (code != CUDA_ERROR_NOT_READY)
        status = moietyi_driver_status(MOIETYI_ENTRY_cuEventQuery, code);
    (void)moietyi_section_leave(&section);
    return status;
}

/* By questions, and not as a recorder: the work may wait for the thread that
 * begins a guard. */
static moiety_status wait_last(struct moietyi_streams *streams, unsigned i,
                               moietyi_nap_fn *nap)
{
    CUevent event = NULL;
    bool is_over = false;
    long nap_ns = NAP_NS;
    moiety_status status = record_last(streams, i, &event);
    if (status == MOIETY_OK)
        status = ask_last(streams, event, &is_over);
    while (status == MOIETY_OK && !is_over) {
        nap(&nap_ns, NAP_MOST_NS);
        status = moietyi_is_interrupted()
                     ? moietyi_fail(MOIETY_E_BUSY, "the wait was interrupted")
                     : ask_last(streams, event, &is_over);
    }
    moietyi_event_destroy(streams, event);
    return status;
}

/* An old driver has no such event. */
static moiety_status synchronise_guarded(const struct moietyi_streams *streams,
                                         unsigned i)
{
    if (!moietyi_capture_guard_recorder_begin())
        return refuse_guard();
    moiety_status status = synchronise(streams, i);
    moietyi_capture_guard_recorder_end();
    return status;
}

static moiety_status wait_for_context(struct moietyi_streams *streams,
                                      unsigned i, moietyi_nap_fn *nap)
{
    return streams->driver->cuCtxRecordEvent ? wait_last(streams, i, nap)
                                             : synchronise_guarded(streams, i);
}

/* Whether some of the work may go on: the driver refused, and its context is
 * still there. */
static bool may_go_on(const struct moietyi_streams *streams,
                      moiety_status status)
{
    return status != MOIETY_OK && status != MOIETY_E_BUSY &&
           !moietyi_context_is_lost(streams->own_context) &&
           !moietyi_driver_has_stopped();
}

moiety_status moietyi_synchronise_last(struct moietyi_streams *streams,
                                       moietyi_nap_fn *nap)
{
    moiety_status first = MOIETY_OK;
    for (unsigned i = 0; i < known_contexts(streams); i++) {
        moiety_status status = wait_for_context(streams, i, nap);
        /* What is refused is tried once more. */
        if (may_go_on(streams, status))
            status = wait_for_context(streams, i, nap);
        if (may_go_on(streams, status)) {
            return moietyi_fail(MOIETY_E_BUSY,
                                "the driver refused to wait for the context's "
                                "work: %s",
                                moietyi_failure_message());
        }
        if (status == MOIETY_E_BUSY)
            return status;
        if (first == MOIETY_OK)
            first = status;
    }
    return first;
}
