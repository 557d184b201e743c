/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The report of an allocation that failed. What it says of the pool is taken
 * while the gate is closed; what the driver says comes afterwards, as nobody
 * is to wait for the driver.
 */
#include "binade/oom.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/log.h"
#include "pool/driver/section.h"
#include "pool/oom/escalation.h"
#include "pool/stream/epoch.h"

#define REPORT_TEXT_BYTES 4096U

static void fill_request(const struct binadei_escalation *escalation,
                         binade_oom_report *report)
{
    const struct binadei_request *request = escalation->request;
    report->struct_size = (uint32_t)sizeof(*report);
    report->pool = escalation->call->pool;
    report->stream = escalation->call->stream;
    report->requested_bytes = request->size_bytes;
    report->needed_bytes = request->size.grains * BINADEI_GRAIN_BYTES;
    report->alignment_bytes = request->alignment_grains * BINADEI_GRAIN_BYTES;
    report->grow_status = (uint32_t)escalation->refusal;
    report->duration_ns = binadei_now_ns() - escalation->begin_ns;
}

static void fill_source_name(const struct binadei_pool_body *body,
                             binade_oom_report *report)
{
    const char *name = body->source_name;
    for (size_t i = 0; i + 1 < sizeof(report->source_name) && name[i]; i++)
        report->source_name[i] = name[i];
}

static void oom_fill_segments(const struct binadei_pool_body *body,
                              binade_oom_report *report)
{
    struct binadei_segments_stats segments;
    binadei_segments_stats(body->segments, &segments);
    report->limit_bytes = binadei_limit_of(body);
    report->reserved_bytes = segments.reserved_bytes;
    report->unreleased_bytes = segments.unreleased_bytes;
    report->segment_count = segments.segment_count;
    report->free_bytes =
        binadei_buddy_free_grains(body->buddy) * BINADEI_GRAIN_BYTES;
    report->largest_free_bytes = binadei_buddy_largest_bytes(body->buddy);
}

static void oom_fill_blocks(const struct binadei_escalation *escalation,
                            binade_oom_report *report)
{
    struct binadei_sums sums;
    binadei_engine_sums(escalation->body->engine,
                        escalation->call->thread_state, &sums);
    report->live_bytes = sums.counts[BINADEI_COUNT_ALLOC_BYTES] -
                         sums.counts[BINADEI_COUNT_FREE_BYTES];
    report->live_count =
        sums.counts[BINADEI_COUNT_ALLOCS] - sums.counts[BINADEI_COUNT_FREES];
    report->retiring_bytes = sums.retiring_bytes;
    report->cached_own_bytes = sums.own_bytes;
    report->cached_ended_bytes = sums.ended_bytes;
    report->cached_shared_bytes = sums.depot_bytes;
    report->cached_others_bytes = sums.cached_bytes - sums.own_bytes -
                                  sums.ended_bytes - sums.depot_bytes;
}

static binade_oom_stream
oom_stream_of(const struct binadei_escalation *escalation,
              const struct binadei_waiting *waiting)
{
    const struct binadei_stream_state *stream_state = waiting->stream_state;
    binade_oom_stream stream = {
        .stream = BINADE_STREAM_ANY,
        .context = escalation->body->context,
        .kind = BINADE_OOM_KIND_CONTEXT,
        .retiring_bytes = waiting->bytes,
        .batch_count = waiting->epoch_count,
        .oldest_ns = waiting->oldest_ns,
    };
    if (stream_state->kind >= BINADEI_STREAM_STATE_STREAM) {
        stream.stream = stream_state->stream;
        stream.context = stream_state->context;
        stream.kind = stream_state->kind == BINADEI_STREAM_STATE_STREAM
                          ? BINADE_OOM_KIND_STREAM
                          : BINADE_OOM_KIND_PER_THREAD;
    }
    return stream;
}

static void fill_streams(const struct binadei_escalation *escalation,
                         binade_oom_report *report)
{
    struct binadei_waiting waiting[BINADE_OOM_STREAMS];
    uint32_t count = binadei_epochs_survey(&escalation->call->engine->streams,
                                           waiting, BINADE_OOM_STREAMS);
    report->waiting_stream_count = count;
    report->stream_count =
        count < BINADE_OOM_STREAMS ? count : BINADE_OOM_STREAMS;
    for (uint32_t i = 0; i < report->stream_count; i++)
        report->streams[i] = oom_stream_of(escalation, &waiting[i]);
}

void binadei_oom_look(struct binadei_escalation *escalation)
{
    oom_fill_segments(escalation->body, &escalation->report);
    oom_fill_blocks(escalation, &escalation->report);
    fill_streams(escalation, &escalation->report);
}

/* What it does not tell stays 0. */
static void fill_device(struct binadei_pool_body *body,
                        binade_oom_report *report)
{
    struct binadei_section section;
    binade_driver_error error = {.struct_size = sizeof(error)};
    size_t free_bytes;
    size_t total_bytes;
    /* First: asking may fail and become the last error. */
    if (binade_last_driver_error(&error) == BINADE_OK)
        report->driver_code = error.code;
    if (binadei_context_enter(&body->own_context, &section) != BINADE_OK)
        return;
    if (body->driver->cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
        report->device_free_bytes = free_bytes;
        report->device_total_bytes = total_bytes;
    }
    (void)binadei_section_leave(&section);
}

static binade_status message(const binade_oom_report *report)
{
    char reason[BINADEI_OOM_REASON_BYTES];
    binadei_oom_reason(report, reason);
    return binadei_fail((binade_status)report->status,
                        "%" PRIu64 " bytes: %s; binade_last_oom() has more",
                        report->requested_bytes, reason);
}

/* Told when the call is over. */
static void oom_log(const binade_oom_report *report)
{
    char text[REPORT_TEXT_BYTES];
    if (!binadei_log_wants(BINADE_LOG_ERROR))
        return;
    size_t length = binade_oom_text(report, text, sizeof(text));
    /* Without its last newline. */
    if (length && length < sizeof(text))
        text[length - 1] = '\0';
    binadei_log(BINADE_LOG_ERROR, "pool %p: %s", (void *)report->pool, text);
}

binade_status binadei_oom_report(struct binadei_escalation *escalation,
                                 binade_status status)
{
    escalation->report.status = (uint32_t)status;
    fill_request(escalation, &escalation->report);
    fill_source_name(escalation->body, &escalation->report);
    fill_device(escalation->body, &escalation->report);
    escalation->call->thread_state->oom = escalation->report;
    oom_log(&escalation->report);
    return message(&escalation->report);
}

binade_status binade_last_oom(binade_pool *pool, binade_oom_report *out)
{
    struct binadei_call call;
    if (!out || out->struct_size < BINADEI_OOM_REPORT_BYTES_MIN) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_last_oom: out is NULL or its struct_size "
                            "below %zu",
                            BINADEI_OOM_REPORT_BYTES_MIN);
    }
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    binade_oom_report report = call.thread_state->oom;
    report.struct_size = out->struct_size < sizeof(report)
                             ? out->struct_size
                             : (uint32_t)sizeof(report);
    memcpy(out, &report, report.struct_size);
    binadei_call_leave(&call);
    return BINADE_OK;
}
