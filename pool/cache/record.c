/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Recording events and asking for them.
 */
#include "pool/cache/record.h"

#include <stdio.h>
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/cache/bundle.h"
#include "pool/cache/guard.h"
#include "pool/cache/slot.h"
#include "pool/driver/section.h"

static binade_status no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory for the pool's events");
}

binade_status binadei_event_create(const struct binadei_engine *engine,
                                   CUcontext context, CUevent *out)
{
    const struct binadei_driver *driver = engine->driver;
    CUcontext popped;
    bool is_own = context == engine->contexts[0];
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

/* The batch's next event, in `context`; it counts only once it is recorded.
 * NULL, and why. */
static struct binadei_event *next_event(const struct binadei_engine *engine,
                                        CUcontext context,
                                        struct binadei_batch *batch,
                                        binade_status *out_status)
{
    if (!binadei_batch_reserve(batch, batch->event_count + 1)) {
        *out_status = no_memory();
        return NULL;
    }
    struct binadei_event *event = &batch->events[batch->event_count];
    if (event->event && event->context != context) {
        (void)engine->driver->cuEventDestroy(event->event);
        event->event = NULL;
    }
    if (!event->event) {
        *out_status = binadei_event_create(engine, context, &event->event);
        if (*out_status != BINADE_OK)
            return NULL;
        event->context = context;
    }
    event->is_done = false;
    return event;
}

bool binadei_is_capturing(const struct binadei_engine *engine, CUstream stream)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult code = engine->driver->cuStreamIsCapturing(stream, &capture);
    return code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (code == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE);
}

binade_status binadei_capture_of(const struct binadei_engine *engine,
                                 CUstream stream, struct binadei_capture *out)
{
    const struct binadei_driver *driver = engine->driver;
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

static binade_status record_stream(struct binadei_member *member,
                                   CUstream stream, CUcontext context,
                                   struct binadei_batch *batch)
{
    struct binadei_engine *engine = member->engine;
    binade_status status;
    /* An event recorded now would become part of the graph. */
    if (binadei_is_capturing(engine, stream))
        return BINADE_E_BUSY;
    struct binadei_event *event = next_event(engine, context, batch, &status);
    if (!event)
        return status;
    status =
        BINADEI_CALL(engine->driver, cuEventRecord, (event->event, stream));
    if (status != BINADE_OK)
        return status;
    batch->event_count++;
    binadei_count(member, BINADEI_COUNT_EVENTS, 1);
    return BINADE_OK;
}

static bool is_capture_error(CUresult code)
{
    return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

/* A capture was broken because nobody held a guard: said once. */
static void report_disturbed(struct binadei_member *member)
{
    static atomic_flag is_reported = ATOMIC_FLAG_INIT;
    binadei_count(member, BINADEI_COUNT_DISTURBED, 1);
    if (!atomic_flag_test_and_set(&is_reported))
        (void)fputs("binade: a context event met a graph capture; hold "
                    "binade_capture_guard_begin() while capturing\n",
                    stderr);
}

binade_status binadei_event_record_context(struct binadei_member *member,
                                           CUcontext context, CUevent event)
{
    CUresult code = member->engine->driver->cuCtxRecordEvent(context, event);
    if (is_capture_error(code)) {
        report_disturbed(member);
        return BINADE_E_BUSY;
    }
    binade_status status =
        binadei_driver_status(BINADEI_ENTRY_cuCtxRecordEvent, code);
    if (status == BINADE_OK)
        binadei_count(member, BINADEI_COUNT_CONTEXT_EVENTS, 1);
    return status;
}

static binade_status record_context(struct binadei_member *member,
                                    CUcontext context,
                                    struct binadei_batch *batch)
{
    binade_status status;
    struct binadei_event *event =
        next_event(member->engine, context, batch, &status);
    if (!event)
        return status;
    status = binadei_event_record_context(member, context, event->event);
    if (status == BINADE_OK)
        batch->event_count++;
    return status;
}

/* Between the guard's two calls. */
static binade_status record_contexts(struct binadei_member *member,
                                     struct binadei_batch *batch)
{
    struct binadei_engine *engine = member->engine;
    binade_status status = BINADE_OK;
    if (binadei_is_capturing(engine, BINADE_STREAM_LEGACY))
        return BINADE_E_BUSY;
    unsigned count =
        atomic_load_explicit(&engine->context_count, memory_order_acquire);
    for (unsigned i = 0; i < count && status == BINADE_OK; i++)
        status = record_context(member, engine->contexts[i], batch);
    return status;
}

binade_status binadei_record_any(struct binadei_member *member,
                                 struct binadei_batch *batch)
{
    if (!member->engine->driver->cuCtxRecordEvent) {
        batch->needs_synchronise = true;
        return BINADE_OK;
    }
    if (!binadei_guard_recorder_begin()) {
        binadei_count(member, BINADEI_COUNT_GUARDED, 1);
        return BINADE_E_BUSY;
    }
    binade_status status = record_contexts(member, batch);
    binadei_guard_recorder_end();
    return status;
}

/* A stream of the pool's own, that nothing else is put on. */
static binade_status helper(struct binadei_engine *engine, CUstream *out)
{
    unsigned turn = atomic_fetch_add_explicit(&engine->helper_turn, 1,
                                              memory_order_relaxed);
    _Atomic(CUstream) *at = &engine->helpers[turn % BINADEI_HELPERS];
    CUstream stream = atomic_load_explicit(at, memory_order_acquire);
    if (!stream) {
        binade_status status = BINADEI_CALL(engine->driver, cuStreamCreate,
                                            (&stream, CU_STREAM_NON_BLOCKING));
        if (status != BINADE_OK)
            return status;
        CUstream nobody = NULL;
        if (!atomic_compare_exchange_strong(at, &nobody, stream)) {
            (void)engine->driver->cuStreamDestroy(stream);
            stream = nobody;
        }
    }
    *out = stream;
    return BINADE_OK;
}

binade_status binadei_record_after(struct binadei_member *member, CUevent event,
                                   struct binadei_batch *batch)
{
    struct binadei_engine *engine = member->engine;
    CUstream stream;
    binade_status status = helper(engine, &stream);
    if (status == BINADE_OK)
        status =
            BINADEI_CALL(engine->driver, cuStreamWaitEvent, (stream, event, 0));
    if (status == BINADE_OK)
        status = record_stream(member, stream, engine->contexts[0], batch);
    return status;
}

static binade_status record_closed(struct binadei_member *member,
                                   const struct binadei_slot *slot,
                                   struct binadei_batch *batch)
{
    /* SF.acquire: the event was recorded. */
    CUevent final_event =
        atomic_load_explicit(&slot->final_event, memory_order_acquire);
    return final_event ? binadei_record_after(member, final_event, batch)
                       : binadei_record_any(member, batch);
}

binade_status binadei_record_slot(struct binadei_member *member,
                                  struct binadei_slot *slot,
                                  struct binadei_batch *batch)
{
    if (slot->kind == BINADEI_SLOT_ANY)
        return binadei_record_any(member, batch);
    if (slot->kind == BINADEI_SLOT_PER_THREAD) {
        /* The handle means the stream of the thread that records. */
        return slot->member == member && !binadei_slot_is_closed(slot)
                   ? record_stream(member, slot->stream, slot->context, batch)
                   : binadei_record_any(member, batch);
    }
    if (!binadei_slot_pin(slot))
        return record_closed(member, slot, batch);
    binade_status status =
        record_stream(member, slot->stream, slot->context, batch);
    binadei_slot_unpin(slot);
    return status;
}

binade_status binadei_batch_record(struct binadei_member *member,
                                   struct binadei_slot *slot,
                                   struct binadei_batch *batch)
{
    struct binadei_engine *engine = member->engine;
    struct binadei_section section;
    binade_status status = binadei_context_enter(engine->home, &section);
    if (status != BINADE_OK)
        return status;
    status = binadei_record_slot(member, slot, batch);
    (void)binadei_section_leave(&section);
    return status;
}

/* A spare batch with an event, or NULL. */
static struct binadei_batch *make_batch(const struct binadei_engine *engine)
{
    struct binadei_batch *batch = calloc(1, sizeof(*batch));
    if (!batch || !binadei_batch_reserve(batch, 1)) {
        free(batch);
        return NULL;
    }
    batch->events[0].context = engine->contexts[0];
    if (binadei_event_create(engine, engine->contexts[0],
                             &batch->events[0].event) == BINADE_OK)
        return batch;
    free(batch->events);
    free(batch);
    return NULL;
}

void binadei_record_stock(struct binadei_engine *engine, unsigned count)
{
    struct binadei_section section;
    struct binadei_batch *stock = NULL;
    if (binadei_context_enter(engine->home, &section) != BINADE_OK)
        return;
    while (count--) {
        struct binadei_batch *batch = make_batch(engine);
        if (!batch)
            break;
        batch->next = stock;
        stock = batch;
    }
    (void)binadei_section_leave(&section);
    binadei_batches_share(engine, stock);
}

binade_status binadei_record_final(struct binadei_engine *engine,
                                   struct binadei_slot *slot)
{
    CUevent event;
    if (binadei_is_capturing(engine, slot->stream))
        return BINADE_E_BUSY;
    binade_status status = binadei_event_create(engine, slot->context, &event);
    if (status != BINADE_OK)
        return status;
    status = BINADEI_CALL(engine->driver, cuEventRecord, (event, slot->stream));
    if (status != BINADE_OK) {
        (void)engine->driver->cuEventDestroy(event);
        return status;
    }
    /* SF.release. */
    atomic_store_explicit(&slot->final_event, event, memory_order_release);
    return BINADE_OK;
}

void binadei_event_destroy(const struct binadei_engine *engine, CUevent event)
{
    if (event && !binadei_context_is_lost(engine->home))
        (void)engine->driver->cuEventDestroy(event);
}

bool binadei_batch_is_done(struct binadei_member *member,
                           struct binadei_batch *batch)
{
    const struct binadei_driver *driver = member->engine->driver;
    if (batch->needs_synchronise)
        return false;
    for (uint32_t i = 0; i < batch->event_count; i++) {
        struct binadei_event *event = &batch->events[i];
        if (event->is_done)
            continue;
        binadei_count(member, BINADEI_COUNT_QUERIES, 1);
        /* An error of the device is no proof that the work is over. */
        if (driver->cuEventQuery(event->event) != CUDA_SUCCESS)
            return false;
        event->is_done = true;
    }
    return true;
}

binade_status binadei_synchronise(const struct binadei_engine *engine)
{
    binade_status first = BINADE_OK;
    unsigned count =
        atomic_load_explicit(&engine->context_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        struct binadei_section section;
        binade_status status =
            i ? binadei_section_enter(engine->driver, engine->contexts[i],
                                      &section)
              : binadei_context_enter(engine->home, &section);
        if (status == BINADE_OK) {
            status = BINADEI_CALL(engine->driver, cuCtxSynchronize, ());
            (void)binadei_section_leave(&section);
        }
        if (first == BINADE_OK)
            first = status;
    }
    return first;
}
