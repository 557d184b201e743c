/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The report of an allocation that failed. Its numbers of the pool are taken
 * while the gate is closed; the driver's numbers are taken afterwards, so that
 * no thread waits for the driver.
 */
#include "moiety/oom.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/log.h"
#include "pool/driver/section.h"
#include "pool/oom/escalation.h"
#include "pool/stream/capture_guard.h"
#include "pool/stream/epoch.h"

#define REPORT_TEXT_BYTES 4096U

static void fill_request(const struct moietyi_escalation *escalation,
                         moiety_oom_report *report)
{
    const struct moietyi_request *request = escalation->request;
    report->struct_size = (uint32_t)sizeof(*report);
    report->pool = escalation->call->pool;
    report->stream = escalation->call->stream;
    report->requested_bytes = request->size_bytes;
    report->needed_bytes = request->size.grains * MOIETYI_GRAIN_BYTES;
    report->alignment_bytes = request->alignment_grains * MOIETYI_GRAIN_BYTES;
    report->grow_status = (uint32_t)escalation->refusal;
    report->duration_ns = moietyi_now_ns() - escalation->begin_ns;
}

static void fill_source_name(const struct moietyi_pool_body *body,
                             moiety_oom_report *report)
{
    const char *name = moietyi_segments_source_name(body->segments);
    for (size_t i = 0; i + 1 < sizeof(report->source_name) && name[i]; i++)
        report->source_name[i] = name[i];
}

static void oom_fill_segments(const struct moietyi_pool_body *body,
                              moiety_oom_report *report)
{
    struct moietyi_segments_stats segments;
    moietyi_segments_stats(body->segments, &segments);
    report->limit_bytes = moietyi_limit_of(body);
    report->reserved_bytes = segments.reserved_bytes;
    report->unreleased_bytes = segments.unreleased_bytes;
    report->segment_count = segments.segment_count;
    report->free_bytes =
        moietyi_space_free_grains(body->space) * MOIETYI_GRAIN_BYTES;
    report->largest_free_bytes = moietyi_space_largest_bytes(body->space);
}

static void oom_fill_blocks(const struct moietyi_escalation *escalation,
                            moiety_oom_report *report)
{
    struct moietyi_sums sums;
    moietyi_engine_sums(escalation->body->engine,
                        escalation->call->thread_state, &sums);
    report->live_bytes = sums.counts[MOIETYI_COUNT_ALLOC_BYTES] -
                         sums.counts[MOIETYI_COUNT_FREE_BYTES];
    report->live_count =
        sums.counts[MOIETYI_COUNT_ALLOCS] - sums.counts[MOIETYI_COUNT_FREES];
    report->retiring_bytes = sums.retiring_bytes;
    report->cached_own_bytes = sums.own_bytes;
    report->cached_ended_bytes = sums.ended_bytes;
    report->cached_others_bytes =
        sums.cached_bytes - sums.own_bytes - sums.ended_bytes;
}

static moiety_oom_stream
oom_stream_of(const struct moietyi_escalation *escalation,
              const struct moietyi_waiting *waiting)
{
    const struct moietyi_stream_state *stream_state = waiting->stream_state;
    moiety_oom_stream stream = {
        .stream = MOIETY_STREAM_ANY,
        .context = escalation->body->context,
        .kind = MOIETY_OOM_KIND_CONTEXT,
        .retiring_bytes = waiting->bytes,
        .oldest_ns = waiting->oldest_ns,
    };
    if (stream_state->kind >= MOIETYI_STREAM_STATE_STREAM) {
        stream.stream = stream_state->stream;
        stream.context = stream_state->context;
        stream.kind = stream_state->kind == MOIETYI_STREAM_STATE_STREAM
                          ? MOIETY_OOM_KIND_STREAM
                          : MOIETY_OOM_KIND_PER_THREAD;
    }
    return stream;
}

static void fill_streams(const struct moietyi_escalation *escalation,
                         moiety_oom_report *report)
{
    struct moietyi_waiting waiting[MOIETY_OOM_STREAMS];
    uint32_t count = moietyi_epochs_survey(&escalation->call->engine->streams,
                                           waiting, MOIETY_OOM_STREAMS);
    report->waiting_stream_count = count;
    report->stream_count =
        count < MOIETY_OOM_STREAMS ? count : MOIETY_OOM_STREAMS;
    for (uint32_t i = 0; i < report->stream_count; i++)
        report->streams[i] = oom_stream_of(escalation, &waiting[i]);
}

void moietyi_oom_look(struct moietyi_escalation *escalation)
{
    oom_fill_segments(escalation->body, &escalation->report);
    oom_fill_blocks(escalation, &escalation->report);
    fill_streams(escalation, &escalation->report);
    escalation->report.unrecorded_bytes =
        moietyi_epochs_fresh_bytes(&escalation->call->engine->streams);
    escalation->report.held_up_bytes =
        escalation->is_held_up
            ? moietyi_segments_whole_bytes(escalation->body->segments)
            : 0;
}

/* Why no event is recorded, if that is so. */
static void fill_unrecorded(const struct moietyi_escalation *escalation,
                            moiety_oom_report *report)
{
    if (moietyi_capture_guard_is_held())
        report->unrecorded_cause = MOIETY_OOM_UNRECORDED_GUARD;
    else if (moietyi_is_capturing(&escalation->call->engine->streams,
                                  MOIETY_STREAM_LEGACY))
        report->unrecorded_cause = MOIETY_OOM_UNRECORDED_CAPTURE;
    else
        report->unrecorded_bytes = 0;
}

/* Numbers that the driver does not return stay 0. */
static void fill_device(const struct moietyi_escalation *escalation,
                        moiety_oom_report *report)
{
    struct moietyi_pool_body *body = escalation->body;
    struct moietyi_section section;
    moiety_driver_error error = {.struct_size = sizeof(error)};
    size_t free_bytes;
    size_t total_bytes;
    /* First, because a query may fail and become the last error. */
    if (moiety_last_driver_error(&error) == MOIETY_OK)
        report->driver_code = error.code;
    if (moietyi_context_enter(&body->own_context, &section) != MOIETY_OK)
        return;
    fill_unrecorded(escalation, report);
    if (body->driver->cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS &&
        free_bytes <= total_bytes) {
        report->device_free_bytes = free_bytes;
        report->device_total_bytes = total_bytes;
    }
    (void)moietyi_section_leave(&section);
}

static moiety_status message(const moiety_oom_report *report)
{
    char reason[MOIETYI_OOM_REASON_BYTES];
    moietyi_oom_reason(report, reason);
    return moietyi_fail((moiety_status)report->status,
                        "%" PRIu64
                        " bytes: %s; moiety_pool_last_oom() has more",
                        report->requested_bytes, reason);
}

/* Logged when the call is over. */
static void oom_log(const moiety_oom_report *report)
{
    char text[REPORT_TEXT_BYTES];
    if (!moietyi_log_wants(MOIETY_LOG_ERROR))
        return;
    size_t length = moiety_oom_text(report, text, sizeof(text));
    /* Without its last newline. */
    if (length && length < sizeof(text))
        text[length - 1] = '\0';
    moietyi_log(MOIETY_LOG_ERROR, "pool %p: %s", (void *)report->pool, text);
}

moiety_status moietyi_oom_report(struct moietyi_escalation *escalation,
                                 moiety_status status)
{
    escalation->report.status = (uint32_t)status;
    fill_request(escalation, &escalation->report);
    fill_source_name(escalation->body, &escalation->report);
    fill_device(escalation, &escalation->report);
    escalation->call->thread_state->oom = escalation->report;
    oom_log(&escalation->report);
    return message(&escalation->report);
}

moiety_status moiety_pool_last_oom(moiety_pool *pool, moiety_oom_report *out)
{
    struct moietyi_call call;
    if (!out || out->struct_size < MOIETYI_OOM_REPORT_BYTES_MIN) {
        return moietyi_fail(
            MOIETY_E_INVALID,
            "moiety_pool_last_oom: out is NULL or its struct_size "
            "below %zu",
            MOIETYI_OOM_REPORT_BYTES_MIN);
    }
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    moiety_oom_report report = call.thread_state->oom;
    report.struct_size = out->struct_size < sizeof(report)
                             ? out->struct_size
                             : (uint32_t)sizeof(report);
    memcpy(out, &report, report.struct_size);
    moietyi_call_leave(&call);
    return MOIETY_OK;
}
