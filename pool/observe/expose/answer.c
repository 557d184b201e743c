/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool is copied while it cannot end, and the copy is sent when it can again:
 * a slow reader holds up nobody.
 */
#define _GNU_SOURCE
#include "pool/observe/expose/answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "moiety/heap.h"
#include "moiety/history.h"
#include "moiety/stats.h"
#include "moiety/version.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/core/body.h"

#define NAME_BYTES 64

enum what { STATS, HEAP, SNAPSHOT };

static const char *const names[] = {
    [STATS] = "stats", [HEAP] = "heap", [SNAPSHOT] = "snapshot"};

struct request {
    enum what what;
    uint64_t id; /* of a pool; 0: all */
};

/* The copy of a pool's numbers. */
struct view {
    enum what what;
    char source_name[NAME_BYTES];
    int32_t device;
    bool is_pinned; /* a host arena's */
    uint64_t limit_bytes;
    moiety_status status;
    moiety_pool_stats stats;
    moiety_heap_snapshot *heap;    /* or NULL */
    moiety_history_entry *entries; /* NULL: the pool keeps no history */
    moiety_history_summary history;
};

static bool read_id(const char *text, uint64_t *out)
{
    uint64_t id = 0;
    for (; *text >= '0' && *text <= '9' && id < UINT64_MAX / 16; text++)
        id = 10 * id + (uint64_t)(*text - '0');
    *out = id;
    return *text == '\0' && id != 0;
}

static bool read_request(const char *text, struct request *out)
{
    size_t length = strcspn(text, " ");
    out->id = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i]) != length || strncmp(names[i], text, length) != 0)
            continue;
        out->what = (enum what)i;
        return text[length] == '\0' || read_id(text + length + 1, &out->id);
    }
    return false;
}

static void copy_history(moiety_pool *pool, struct view *view)
{
    view->history.struct_size = sizeof(view->history);
    moiety_history_entry *entries =
        malloc(MOIETYI_ANSWER_ENTRIES_MAX * sizeof(*entries));
    view->status =
        entries ? moiety_history_read(pool, entries, MOIETYI_ANSWER_ENTRIES_MAX,
                                      &view->history)
                : moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                               "no memory for a copy of the history");
    if (view->status == MOIETY_OK)
        view->entries = entries;
    else
        free(entries);
}

static void answer_copy(const struct moietyi_pool_body *body, void *context)
{
    struct view *view = context;
    moiety_pool *pool = body->pool;
    const char *name = moietyi_segments_source_name(body->segments);
    for (size_t i = 0; i + 1 < NAME_BYTES && name[i]; i++)
        view->source_name[i] = name[i];
    view->device = body->options.device;
    view->is_pinned =
        body->options.source && (body->source.flags & MOIETY_SOURCE_PINNED);
    view->limit_bytes = moietyi_limit_of(body);
    view->stats.struct_size = sizeof(view->stats);
    view->status = view->what == STATS
                       ? moiety_pool_get_stats(pool, &view->stats)
                       : moiety_heap_snapshot_create(pool, &view->heap);
    if (view->status == MOIETY_OK && view->what == SNAPSHOT &&
        body->options.history_entries)
        copy_history(pool, view);
}

static void answer_release(struct view *view)
{
    moiety_heap_snapshot_destroy(view->heap);
    free(view->entries);
}

static void say_stats(struct moietyi_wire *wire, const moiety_pool_stats *stats)
{
    const char *key;
    uint64_t value = 0;
    moietyi_wire_say(wire, ", \"stats\": {");
    for (uint32_t i = 0; (key = moiety_pool_stats_entry(stats, i, &value)); i++)
        moietyi_wire_say(wire, "%s\"%s\": %" PRIu64, i ? ", " : "", key, value);
    moietyi_wire_say(wire, "}");
}

static void say_segments(struct moietyi_wire *wire,
                         const moiety_heap_snapshot *heap)
{
    size_t count = 0;
    const moiety_heap_segment *segments =
        moiety_heap_snapshot_segments(heap, &count);
    moietyi_wire_say(wire, ", \"segments\": [");
    for (size_t i = 0; i < count; i++) {
        moietyi_wire_say(wire,
                         "%s\n{\"id\": %" PRIu64
                         ", \"address\": %llu, \"size_bytes\": "
                         "%" PRIu64 ", \"first_interval\": %" PRIu64
                         ", \"interval_count\": %" PRIu64 "}",
                         i ? "," : "", segments[i].id, segments[i].address,
                         segments[i].size_bytes, segments[i].first_interval,
                         segments[i].interval_count);
    }
    moietyi_wire_say(wire, "]");
}

static void say_intervals(struct moietyi_wire *wire,
                          const moiety_heap_snapshot *heap)
{
    size_t count = 0;
    const moiety_heap_interval *intervals =
        moiety_heap_snapshot_intervals(heap, &count);
    moietyi_wire_say(wire, ", \"intervals\": [");
    for (size_t i = 0; i < count && !wire->has_failed; i++) {
        const moiety_heap_interval *it = &intervals[i];
        moietyi_wire_say(wire,
                         "%s\n{\"address\": %llu, \"size_bytes\": %" PRIu64
                         ", \"kind\": \"%s\", \"stream\": %" PRIuPTR
                         ", \"age_ns\": %" PRIu64 ", \"thread_id\": %" PRIu32
                         ", \"segment\": %" PRIu32 "}",
                         i ? "," : "", it->address, it->size_bytes,
                         moiety_heap_kind_name(it->kind), (uintptr_t)it->stream,
                         it->age_ns, it->thread_id, it->segment);
    }
    moietyi_wire_say(wire, "]");
}

static void say_heap(struct moietyi_wire *wire,
                     const moiety_heap_snapshot *heap)
{
    moiety_heap_summary summary = {.struct_size = sizeof(summary)};
    if (moiety_heap_snapshot_summary(heap, &summary) == MOIETY_OK)
        moietyi_wire_say(wire,
                         ", \"time_ns\": %" PRIu64 ", \"stopped_ns\": %" PRIu64,
                         summary.time_ns, summary.stopped_ns);
    say_segments(wire, heap);
    say_intervals(wire, heap);
}

static void say_history(struct moietyi_wire *wire, const struct view *view)
{
    if (!view->entries) {
        moietyi_wire_say(wire, ", \"history\": null");
        return;
    }
    moietyi_wire_say(wire,
                     ", \"history\": {\"noted\": %" PRIu64
                     ", \"lost\": %" PRIu64 ", \"entries\": [",
                     view->history.noted_count, view->history.lost_count);
    for (uint64_t i = 0; i < view->history.count && !wire->has_failed; i++) {
        const moiety_history_entry *it = &view->entries[i];
        moietyi_wire_say(
            wire,
            "%s\n{\"time_ns\": %" PRIu64 ", \"kind\": \"%s\", "
            "\"status\": \"%s\", \"address\": %llu, "
            "\"size_bytes\": %" PRIu64 ", \"stream\": %" PRIuPTR
            ", \"thread_id\": %" PRIu32 "}",
            i ? "," : "", it->time_ns, moiety_history_kind_name(it->kind),
            moiety_status_name((moiety_status)it->status), it->address,
            it->size_bytes, (uintptr_t)it->stream, it->thread_id);
    }
    moietyi_wire_say(wire, "]}");
}

static void say_error(struct moietyi_wire *wire, moiety_status status,
                      const char *message)
{
    moietyi_wire_say(wire, "\"error\": {\"status\": \"%s\", \"message\": ",
                     moiety_status_name(status));
    moietyi_wire_say_text(wire, message);
    moietyi_wire_say(wire, "}");
}

static void say_view(struct moietyi_wire *wire, uint64_t id,
                     const struct view *view)
{
    moietyi_wire_say(wire,
                     "{\"id\": %" PRIu64 ", \"device\": %" PRId32
                     ", \"memory\": \"%s\", \"limit_bytes\": %" PRIu64
                     ", \"source\": ",
                     id, view->device, view->is_pinned ? "pinned" : "device",
                     view->limit_bytes);
    moietyi_wire_say_text(wire, view->source_name);
    if (view->status != MOIETY_OK) {
        moietyi_wire_say(wire, ", ");
        say_error(wire, view->status, moiety_last_error_message());
    } else if (view->what == STATS) {
        say_stats(wire, &view->stats);
    } else {
        say_heap(wire, view->heap);
        if (view->what == SNAPSHOT)
            say_history(wire, view);
    }
    moietyi_wire_say(wire, "}");
}

/* How many there were. */
static unsigned say_pools(struct moietyi_wire *wire,
                          const struct request *request)
{
    unsigned count = 0;
    uint64_t least = request->id;
    while (!wire->has_failed) {
        struct view view = {.what = request->what};
        uint64_t id = request->id && count
                          ? 0
                          : moietyi_exposed_look(least, answer_copy, &view);
        bool is_wanted = id && (!request->id || id == request->id);
        if (is_wanted) {
            moietyi_wire_say(wire, count ? ",\n" : "\n");
            say_view(wire, id, &view);
            count++;
        }
        answer_release(&view);
        if (!is_wanted)
            break;
        least = id + 1;
    }
    return count;
}

static uint64_t epoch_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

void moietyi_answer(struct moietyi_wire *wire, const char *text)
{
    struct request request;
    if (!read_request(text, &request)) {
        moietyi_wire_say(wire, "{");
        say_error(wire, MOIETY_E_INVALID,
                  "accepted are stats, heap and snapshot, each with a space "
                  "and the id of a pool behind it or without");
        moietyi_wire_say(wire, "}\n");
        return;
    }
    moietyi_wire_say(wire,
                     "{\"format\": 1, \"version\": \"%s\", \"pid\": %ld, "
                     "\"time_ns\": %" PRIu64 ", \"epoch_ns\": %" PRIu64
                     ", \"request\": \"%s\", \"pools\": [",
                     moiety_version(), (long)getpid(), moietyi_now_ns(),
                     epoch_ns(), names[request.what]);
    unsigned count = say_pools(wire, &request);
    moietyi_wire_say(wire, "]");
    if (request.id && !count) {
        moietyi_wire_say(wire, ", ");
        say_error(wire, MOIETY_E_STALE, "there is no pool of that id");
    }
    moietyi_wire_say(wire, "}\n");
}
