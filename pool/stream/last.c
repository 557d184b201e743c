/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/stream/last.h"

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/later.h"
#include "pool/driver/section.h"
#include "pool/stream/capture_guard.h"
#include "pool/stream/event.h"

#define NAP_NS 20000L
#define NAP_MOST_NS 500000L
/* How long an event takes that has no work before it. */
#define RECORD_NS 10000L

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

static moiety_status refuse_guard(void)
{
    return moietyi_fail(MOIETY_E_CAPTURING,
                        "a capture guard is held: waiting for the context's "
                        "work would break the capture");
}

static moiety_status refuse_capture(void)
{
    return moietyi_fail(MOIETY_E_CAPTURING,
                        "a graph is captured in the context, without a guard: "
                        "its work cannot be waited for");
}

static moiety_status synchronise(const struct moietyi_streams *streams,
                                 unsigned i)
{
    struct moietyi_section section;
    moiety_status status = enter_context(streams, i, &section);
    if (status != MOIETY_OK)
        return status;
    CUresult code = streams->driver->cuCtxSynchronize();
    status = moietyi_met_capture(code)
                 ? refuse_capture()
                 : moietyi_driver_status(MOIETYI_ENTRY_cuCtxSynchronize, code);
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

/* Within a section of the context. A guard waits for this, so it must not
 * wait. */
static moiety_status record_behind(struct moietyi_streams *streams, unsigned i,
                                   CUevent event)
{
    moietyi_counter counts[MOIETYI_STREAM_COUNTS] = {0};
    const struct moietyi_stream_user nobody = {.streams = streams,
                                               .counts = counts};
    /* It would break a capture on a blocking stream. Other streams cannot be
     * asked: they may be destroyed, and then a driver crashes. */
    if (moietyi_is_capturing(streams, MOIETY_STREAM_LEGACY))
        return refuse_capture();
    if (!moietyi_capture_guard_recorder_begin())
        return refuse_guard();
    moiety_status status =
        moietyi_event_record_context(&nobody, streams->contexts[i], event);
    moietyi_capture_guard_recorder_end();
    return status == MOIETY_E_CAPTURING ? refuse_capture() : status;
}

/* An event behind all work of the context; made if there is none. `*event`
 * stays or becomes NULL if the record fails, because the event would then mean
 * nothing. */
static moiety_status record_last(struct moietyi_streams *streams, unsigned i,
                                 CUevent *event)
{
    struct moietyi_section section;
    moiety_status status = enter_context(streams, i, &section);
    if (status != MOIETY_OK)
        return status;
    if (!*event)
        status = MOIETYI_CALL(streams->driver, cuEventCreate,
                              (event, CU_EVENT_DISABLE_TIMING));
    if (status == MOIETY_OK)
        status = record_behind(streams, i, *event);
    if (status != MOIETY_OK) {
        moietyi_event_destroy(streams, *event);
        *event = NULL;
    }
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

/* It polls, and is no recorder: the work may wait for the thread that begins a
 * guard. */
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
        status =
            moietyi_is_interrupted()
                ? moietyi_fail(MOIETY_E_INTERRUPTED, "the wait was interrupted")
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

/* Whether some of the work may go on: the driver refused, and its context still
 * exists. */
static bool may_go_on(const struct moietyi_streams *streams,
                      moiety_status status)
{
    return status != MOIETY_OK && !moietyi_end_is_refused(status) &&
           !moietyi_context_is_lost(streams->own_context) &&
           !moietyi_driver_has_stopped();
}

/* The driver refuses events, so it is asked to wait. If it refuses that too,
 * the context counts as lost, and the driver gets nothing back. */
static moiety_status wait_without_events(struct moietyi_streams *streams,
                                         unsigned i)
{
    moiety_status status = MOIETY_OK;
    for (int tries = 0; tries < MOIETYI_UNDO_TRIES; tries++) {
        status = synchronise_guarded(streams, i);
        if (!may_go_on(streams, status))
            return status;
    }
    moietyi_context_lose(streams->own_context, status);
    return status;
}

static moiety_status wait_surely(struct moietyi_streams *streams, unsigned i,
                                 moietyi_nap_fn *nap)
{
    moiety_status status = wait_for_context(streams, i, nap);
    /* A refusal is tried once more. */
    if (may_go_on(streams, status))
        status = wait_for_context(streams, i, nap);
    return may_go_on(streams, status) ? wait_without_events(streams, i)
                                      : status;
}

moiety_status moietyi_synchronise_last(struct moietyi_streams *streams,
                                       moietyi_nap_fn *nap)
{
    moiety_status first = MOIETY_OK;
    for (unsigned i = 0; i < known_contexts(streams); i++) {
        moiety_status status = wait_surely(streams, i, nap);
        if (moietyi_end_is_refused(status))
            return status;
        if (first == MOIETY_OK)
            first = status;
    }
    return first;
}

/* An event just recorded is over a little later if the context is idle. */
static moiety_status look_at_event(struct moietyi_streams *streams,
                                   CUevent event, bool is_fresh)
{
    bool is_over = false;
    moiety_status status = ask_last(streams, event, &is_over);
    if (status == MOIETY_OK && !is_over && is_fresh) {
        moietyi_nap(RECORD_NS);
        status = ask_last(streams, event, &is_over);
    }
    return status == MOIETY_OK && !is_over
               ? moietyi_fail(MOIETY_E_WOULD_BLOCK,
                              "work of the device is not over")
               : status;
}

static moiety_status look_at_context(struct moietyi_streams *streams,
                                     unsigned i, bool at_rest)
{
    CUevent *event = &streams->last_events[i];
    bool is_fresh = !*event;
    moiety_status status =
        is_fresh ? record_last(streams, i, event) : MOIETY_OK;
    if (status == MOIETY_OK)
        status = look_at_event(streams, *event, is_fresh);
    if (status != MOIETY_OK || is_fresh || !at_rest)
        return status;
    status = record_last(streams, i, event);
    return status == MOIETY_OK ? look_at_event(streams, *event, true) : status;
}

moiety_status moietyi_look_last(struct moietyi_streams *streams, bool at_rest)
{
    moiety_status first = MOIETY_OK;
    for (unsigned i = 0; i < known_contexts(streams); i++) {
        moiety_status status = look_at_context(streams, i, at_rest);
        if (moietyi_end_is_refused(status))
            return status;
        if (may_go_on(streams, status))
            return MOIETY_E_WOULD_BLOCK;
        if (first == MOIETY_OK)
            first = status;
    }
    return first;
}
