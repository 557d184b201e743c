/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A report for people. The first line says why the allocation failed; below it,
 * bytes are written out in full, so that they can be compared with the program's
 * own numbers.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "moiety/oom.h"
#include "pool/oom/escalation.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)
/* What a segment has is a multiple of it. */
#define PAGE_BYTES (2 * MIB)

struct text {
    char *buffer;
    size_t size_bytes;
    size_t length; /* of the whole, also of what had no room */
};

static __attribute__((format(printf, 2, 3))) void put(struct text *text,
                                                      const char *format, ...)
{
    bool has_room = text->length < text->size_bytes;
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(has_room ? text->buffer + text->length : NULL,
                            has_room ? text->size_bytes - text->length : 0,
                            format, arguments);
    va_end(arguments);
    if (written > 0)
        text->length += (size_t)written;
}

/* Rounded for people: a tenth more or less does not matter. */
static void oom_text_put_size(struct text *text, uint64_t bytes)
{
    uint64_t unit = bytes && bytes < MIB ? KIB : bytes < 10 * GIB ? MIB : GIB;
    const char *name = unit == KIB ? "KiB" : unit == MIB ? "MiB" : "GiB";
    uint64_t tenths = bytes / unit * 10 + bytes % unit * 10 / unit;
    if (bytes && bytes < KIB)
        put(text, "%" PRIu64 " bytes", bytes);
    else if (tenths % 10)
        put(text, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10, name);
    else
        put(text, "%" PRIu64 " %s", tenths / 10, name);
}

/* A sum that does not wrap. */
static uint64_t plus(uint64_t left, uint64_t right)
{
    return left > UINT64_MAX - right ? UINT64_MAX : left + right;
}

static bool is_within_limit(const moiety_oom_report *report, uint64_t bytes)
{
    return !report->limit_bytes || bytes <= report->limit_bytes;
}

static void put_limit(struct text *text, const moiety_oom_report *report)
{
    oom_text_put_size(text, report->live_bytes);
    put(text, " of a limit of ");
    oom_text_put_size(text, report->limit_bytes);
    put(text, " are in use");
    if (!report->unreleased_bytes)
        return;
    put(text, ", and the source does not take back ");
    oom_text_put_size(text, report->unreleased_bytes);
}

/* Free memory of the device does not matter to a source of host memory. */
static void put_device_reason(struct text *text,
                              const moiety_oom_report *report)
{
    put(text, "beyond ");
    oom_text_put_size(text, report->reserved_bytes);
    put(text, " the pool cannot grow: %.127s",
        report->grow_reason[0]
            ? report->grow_reason
            : moiety_status_name((moiety_status)report->grow_status));
    if (report->grow_status != MOIETY_E_NO_DEVICE_MEMORY ||
        (!report->device_total_bytes && !report->device_free_bytes))
        return;
    put(text, "; the device has ");
    oom_text_put_size(text, report->device_free_bytes);
    put(text, " free");
}

static void put_held_up(struct text *text, const moiety_oom_report *report)
{
    oom_text_put_size(text, report->held_up_bytes);
    put(text, " of whole segments do not go back while the device works; the "
              "longest free run is ");
    oom_text_put_size(text, report->largest_free_bytes);
}

static void put_unrecorded(struct text *text, const moiety_oom_report *report)
{
    oom_text_put_size(text, report->unrecorded_bytes);
    put(text, " wait for an event, and none is recorded while %s; ",
        report->unrecorded_cause == MOIETY_OOM_UNRECORDED_GUARD
            ? "a capture guard or a scope is held"
            : "a blocking stream captures a graph");
    oom_text_put_size(text, report->free_bytes);
    put(text, " are free");
}

static void put_behind(struct text *text, const moiety_oom_report *report)
{
    oom_text_put_size(text, report->retiring_bytes);
    put(text, " wait for work that is not over (streams: %" PRIu64 "); ",
        report->waiting_stream_count);
    oom_text_put_size(text, report->free_bytes);
    put(text, " are free");
}

static void put_caches(struct text *text, const moiety_oom_report *report)
{
    oom_text_put_size(text, report->cached_others_bytes);
    put(text,
        " are in the caches of threads that did not come out of a call; ");
    oom_text_put_size(text, report->free_bytes);
    put(text, " are free");
}

static void put_fragments(struct text *text, const moiety_oom_report *report)
{
    put(text, "the longest free run is ");
    oom_text_put_size(text, report->largest_free_bytes);
    put(text, " in %" PRIu64 " segments; ", report->segment_count);
    oom_text_put_size(text, report->free_bytes);
    put(text, " are free in all");
}

typedef void put_fn(struct text *text, const moiety_oom_report *report);

/* Without them, growing would be within the limit. */
static bool is_held_up_decisive(const moiety_oom_report *report)
{
    uint64_t kept = report->reserved_bytes > report->held_up_bytes
                        ? report->reserved_bytes - report->held_up_bytes
                        : 0;
    return is_within_limit(report, plus(kept, report->needed_bytes));
}

/* Finds the main reason. If all memory that is not in use were free: would the
 * block fit into the limit, is that memory there, and where is most of it? */
static put_fn *reason_of(const moiety_oom_report *report)
{
    uint64_t needed = report->needed_bytes;
    uint64_t away = plus(report->retiring_bytes, report->cached_others_bytes);
    uint64_t unused =
        plus(plus(report->free_bytes, away),
             plus(report->cached_own_bytes, report->cached_ended_bytes));
    if (!is_within_limit(
            report,
            plus(plus(report->live_bytes, report->unreleased_bytes), needed)))
        return put_limit;
    if (unused < needed &&
        is_within_limit(
            report, plus(plus(report->reserved_bytes, needed), PAGE_BYTES - 1)))
        return put_device_reason;
    if (report->held_up_bytes && is_held_up_decisive(report))
        return put_held_up;
    if (!away || (report->free_bytes >= needed && away < needed))
        return put_fragments;
    if (report->retiring_bytes < report->cached_others_bytes)
        return put_caches;
    return report->unrecorded_cause &&
                   report->unrecorded_bytes >= report->retiring_bytes / 2
               ? put_unrecorded
               : put_behind;
}

void moietyi_oom_reason(const moiety_oom_report *report,
                        char buffer[MOIETYI_OOM_REASON_BYTES])
{
    struct text text = {.buffer = buffer,
                        .size_bytes = MOIETYI_OOM_REASON_BYTES};
    buffer[0] = '\0';
    reason_of(report)(&text, report);
}

static void put_reason(struct text *text, const moiety_oom_report *report)
{
    put(text, "out of memory: ");
    oom_text_put_size(text, report->needed_bytes);
    put(text, " are needed; ");
    reason_of(report)(text, report);
    put(text, "\n");
}

static void put_request(struct text *text, const moiety_oom_report *report)
{
    put(text,
        "  request    %" PRIu64 " bytes were asked for, %" PRIu64
        " are needed in one piece, aligned to %" PRIu64 "; %s after %" PRIu64
        " us\n",
        report->requested_bytes, report->needed_bytes, report->alignment_bytes,
        moiety_status_name((moiety_status)report->status),
        report->duration_ns / 1000);
}

static void put_bytes(struct text *text, const moiety_oom_report *report)
{
    put(text,
        "  reserved   %" PRIu64 " of a limit of %" PRIu64 ", in %" PRIu64
        " segments%s%.31s; %" PRIu64 " the source does not take back\n",
        report->reserved_bytes, report->limit_bytes, report->segment_count,
        report->source_name[0] ? " of " : "", report->source_name,
        report->unreleased_bytes);
    put(text, "  live       %" PRIu64 " in %" PRIu64 " blocks\n",
        report->live_bytes, report->live_count);
    put(text, "  retiring   %" PRIu64 " freed, with work before their reuse\n",
        report->retiring_bytes);
    put(text,
        "  cached     %" PRIu64 " by this thread, %" PRIu64
        " by others, %" PRIu64 " by ended ones\n",
        report->cached_own_bytes, report->cached_others_bytes,
        report->cached_ended_bytes);
    put(text, "  free       %" PRIu64 ", the longest run %" PRIu64 "; %s\n",
        report->free_bytes, report->largest_free_bytes,
        report->is_exact ? "all of this is exact"
                         : "other threads were at work, so this is not exact");
}

static void put_device(struct text *text, const moiety_oom_report *report)
{
    put(text,
        "  device     %" PRIu64 " free of %" PRIu64
        "; growing ended with %s, the last driver error is %" PRId32 "\n",
        report->device_free_bytes, report->device_total_bytes,
        moiety_status_name((moiety_status)report->grow_status),
        report->driver_code);
}

static void put_steps(struct text *text, const moiety_oom_report *report)
{
    static const char *const names[MOIETY_OOM_STEPS] = {
        "what is done", "grow",      "own cache", "orphans", "idle threads",
        "trim",         "hand over", "callbacks", "wait",    "last look"};
    for (unsigned i = 0; i < MOIETY_OOM_STEPS; i++) {
        const moiety_oom_step *step = &report->steps[i];
        if (step->tries) {
            put(text,
                "  step       %s: taken %" PRIu64 " times, gave %" PRIu64 "\n",
                names[i], step->tries, step->gave_bytes);
        } else {
            put(text, "  step       %s: not taken\n", names[i]);
        }
    }
    if (report->other_pool_count) {
        put(text,
            "  others     %" PRIu64
            " pools of the device were asked, and gave %" PRIu64 " back\n",
            report->other_pool_count, report->other_pool_bytes);
    }
    if (report->callback_calls)
        put(text,
            "  callbacks  %" PRIu64 " called, %" PRIu64 " said they freed\n",
            report->callback_calls, report->callback_successes);
}

static void put_stream(struct text *text, const moiety_oom_stream *stream)
{
    static const char *const kinds[] = {"stream", "per-thread stream",
                                        "all work of context"};
    const char *kind = stream->kind <= MOIETY_OOM_KIND_CONTEXT
                           ? kinds[stream->kind]
                           : "unknown";
    const void *named = stream->kind == MOIETY_OOM_KIND_CONTEXT
                            ? (const void *)stream->context
                            : (const void *)stream->stream;
    put(text,
        "  waiting    %s %p: %" PRIu64 " bytes, the oldest for %" PRIu64
        " us\n",
        kind, named, stream->retiring_bytes, stream->oldest_ns / 1000);
}

static void put_streams(struct text *text, const moiety_oom_report *report)
{
    uint32_t count = report->stream_count < MOIETY_OOM_STREAMS
                         ? report->stream_count
                         : MOIETY_OOM_STREAMS;
    for (uint32_t i = 0; i < count; i++)
        put_stream(text, &report->streams[i]);
    if (report->waiting_stream_count > count)
        put(text, "  waiting    and %" PRIu64 " more streams\n",
            report->waiting_stream_count - count);
}

static void put_report(struct text *text, const moiety_oom_report *report)
{
    if (report->status == MOIETY_OK) {
        put(text, "no allocation of this thread has failed\n");
        return;
    }
    put_reason(text, report);
    put_request(text, report);
    put_bytes(text, report);
    put_device(text, report);
    put_steps(text, report);
    put_streams(text, report);
}

size_t moiety_oom_text(const moiety_oom_report *report, char *buffer,
                       size_t size_bytes)
{
    /* Fields that an earlier version's struct lacks are 0. */
    moiety_oom_report whole = {0};
    if (!report || report->struct_size < MOIETYI_OOM_REPORT_BYTES_MIN ||
        (!buffer && size_bytes))
        return 0;
    memcpy(&whole, report,
           report->struct_size < sizeof(whole) ? report->struct_size
                                               : sizeof(whole));
    struct text text = {.size_bytes = size_bytes};
    text.buffer = buffer;
    put_report(&text, &whole);
    return text.length;
}
