/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A report for people. Bytes are written out in full, so that they can be
 * compared with the program's own numbers.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "binade/oom.h"

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

static void put_request(struct text *text, const binade_oom_report *report)
{
    put(text,
        "out of memory: %" PRIu64 " bytes were asked for, %" PRIu64
        " are needed in one piece, aligned to %" PRIu64 "; %s after %" PRIu64
        " us\n",
        report->requested_bytes, report->needed_bytes, report->alignment_bytes,
        binade_status_name((binade_status)report->status),
        report->duration_ns / 1000);
}

static void put_bytes(struct text *text, const binade_oom_report *report)
{
    put(text,
        "  reserved   %" PRIu64 " of a limit of %" PRIu64 ", in %" PRIu64
        " segments; %" PRIu64 " the source does not take back\n",
        report->reserved_bytes, report->limit_bytes, report->segment_count,
        report->unreleased_bytes);
    put(text, "  live       %" PRIu64 " in %" PRIu64 " blocks\n",
        report->live_bytes, report->live_count);
    put(text, "  retiring   %" PRIu64 " freed, with work before their reuse\n",
        report->retiring_bytes);
    put(text,
        "  cached     %" PRIu64 " by this thread, %" PRIu64
        " by others, %" PRIu64 " by ended ones, %" PRIu64 " shared\n",
        report->cached_own_bytes, report->cached_others_bytes,
        report->cached_ended_bytes, report->cached_shared_bytes);
    put(text, "  free       %" PRIu64 ", the longest run %" PRIu64 "; %s\n",
        report->free_bytes, report->largest_free_bytes,
        report->is_exact ? "all of this is exact"
                         : "other threads were at work, so this is not exact");
}

static void put_device(struct text *text, const binade_oom_report *report)
{
    put(text,
        "  device     %" PRIu64 " free of %" PRIu64
        "; growing ended with %s, the last driver error is %" PRId32 "\n",
        report->device_free_bytes, report->device_total_bytes,
        binade_status_name((binade_status)report->grow_status),
        report->driver_code);
}

static void put_steps(struct text *text, const binade_oom_report *report)
{
    static const char *const names[BINADE_OOM_STEPS] = {
        "finished batches", "grow",         "own cache",
        "orphans",          "idle threads", "trim",
        "hand over",        "callbacks",    "wait",
        "last look"};
    for (unsigned i = 0; i < BINADE_OOM_STEPS; i++) {
        const binade_oom_step *step = &report->steps[i];
        if (step->tries) {
            put(text,
                "  step       %s: taken %" PRIu64 " times, gave %" PRIu64 "\n",
                names[i], step->tries, step->gave_bytes);
        } else {
            put(text, "  step       %s: not taken\n", names[i]);
        }
    }
    if (report->callback_calls)
        put(text,
            "  callbacks  %" PRIu64 " called, %" PRIu64 " said they freed\n",
            report->callback_calls, report->callback_successes);
}

static void put_stream(struct text *text, const binade_oom_stream *stream)
{
    static const char *const kinds[] = {"stream", "per-thread stream",
                                        "all work of context"};
    const char *kind = stream->kind <= BINADE_OOM_KIND_CONTEXT
                           ? kinds[stream->kind]
                           : "unknown";
    const void *named = stream->kind == BINADE_OOM_KIND_CONTEXT
                            ? (const void *)stream->context
                            : (const void *)stream->stream;
    put(text,
        "  waiting    %s %p: %" PRIu64 " bytes in %" PRIu64
        " batches, the oldest for %" PRIu64 " us\n",
        kind, named, stream->retiring_bytes, stream->batch_count,
        stream->oldest_ns / 1000);
}

static void put_streams(struct text *text, const binade_oom_report *report)
{
    uint32_t count = report->stream_count < BINADE_OOM_STREAMS
                         ? report->stream_count
                         : BINADE_OOM_STREAMS;
    for (uint32_t i = 0; i < count; i++)
        put_stream(text, &report->streams[i]);
    if (report->waiting_stream_count > count)
        put(text, "  waiting    and %" PRIu64 " more streams\n",
            report->waiting_stream_count - count);
}

size_t binade_oom_text(const binade_oom_report *report, char *buffer,
                       size_t size_bytes)
{
    if (!report || report->struct_size < sizeof(*report) ||
        (!buffer && size_bytes))
        return 0;
    struct text text = {.size_bytes = size_bytes};
    text.buffer = buffer;
    if (report->status == BINADE_OK) {
        put(&text, "no allocation of this thread has failed\n");
        return text.length;
    }
    put_request(&text, report);
    put_bytes(&text, report);
    put_device(&text, report);
    put_steps(&text, report);
    put_streams(&text, report);
    return text.length;
}
