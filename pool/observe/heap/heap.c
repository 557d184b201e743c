/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of snapshots: arguments, tries, sums.
 */
#include "moiety/heap.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/observe/heap/heap_copy.h"
#include "pool/observe/heap/stop_world.h"

#define PATIENCE_NS UINT64_C(1000000000)
#define NAP_NS 1000000L
#define NAME_BYTES 64U

struct moiety_heap_snapshot {
    struct moietyi_heap_copy copy;
    moiety_heap_summary summary;
    char source_name[NAME_BYTES];
};

static const char *const names[] = {
    [MOIETY_HEAP_FREE] = "free",     [MOIETY_HEAP_USED] = "used",
    [MOIETY_HEAP_CACHED] = "cached", [MOIETY_HEAP_RETIRING] = "retiring",
    [MOIETY_HEAP_KEPT] = "kept",     [MOIETY_HEAP_LOST] = "lost",
};
_Static_assert(sizeof(names) / sizeof(names[0]) == MOIETY_HEAP_KINDS,
               "a kind has no name");

/* The result of one try. */
enum outcome { COPIED, TOO_SMALL, DISTURBED };

static enum outcome copy_once(struct moietyi_call *call,
                              struct moiety_heap_snapshot *snapshot)
{
    uint64_t begin_ns = moietyi_now_ns();
    if (!moietyi_stop_world(call))
        return DISTURBED;
    snapshot->summary.time_ns = moietyi_now_ns();
    bool is_whole = moietyi_heap_fill(call->pool->body, &snapshot->copy);
    moietyi_start_world(call);
    snapshot->summary.stopped_ns = moietyi_now_ns() - begin_ns;
    return is_whole ? COPIED : TOO_SMALL;
}

static moiety_status heap_copy_all(struct moietyi_call *call,
                                   struct moiety_heap_snapshot *snapshot)
{
    uint64_t end_ns = moietyi_now_ns() + PATIENCE_NS;
    enum outcome outcome = TOO_SMALL;
    while (outcome != COPIED) {
        if (!moietyi_heap_reserve(&snapshot->copy))
            return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                "no memory for a snapshot of the heap");
        outcome = copy_once(call, snapshot);
        if (outcome != DISTURBED)
            continue;
        if (moietyi_now_ns() >= end_ns)
            return moietyi_fail(MOIETY_E_TIMEOUT,
                                "other threads' calls did not come to an end");
        moietyi_nap(NAP_NS);
    }
    return MOIETY_OK;
}

static void sum_up(struct moiety_heap_snapshot *snapshot)
{
    moiety_heap_summary *summary = &snapshot->summary;
    summary->struct_size = (uint32_t)sizeof(*summary);
    summary->segment_count = (uint32_t)snapshot->copy.segment_count;
    summary->interval_count = snapshot->copy.interval_count;
    summary->source_name = snapshot->source_name;
    for (size_t i = 0; i < snapshot->copy.interval_count; i++) {
        const moiety_heap_interval *interval = &snapshot->copy.intervals[i];
        summary->bytes[interval->kind] += interval->size_bytes;
        summary->counts[interval->kind]++;
    }
}

static moiety_status heap_take(struct moietyi_call *call,
                               struct moiety_heap_snapshot *snapshot)
{
    const char *name = moietyi_segments_source_name(call->pool->body->segments);
    moiety_status status = heap_copy_all(call, snapshot);
    if (status != MOIETY_OK)
        return status;
    for (size_t i = 0; i + 1 < NAME_BYTES && name[i]; i++)
        snapshot->source_name[i] = name[i];
    moietyi_heap_join(&snapshot->copy, snapshot->summary.time_ns);
    sum_up(snapshot);
    return MOIETY_OK;
}

moiety_status moiety_heap_snapshot_create(moiety_pool *pool,
                                          moiety_heap_snapshot **out)
{
    struct moietyi_call call;
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_heap_snapshot_create: out is NULL");
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    struct moiety_heap_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    status = snapshot ? heap_take(&call, snapshot)
                      : moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                     "no memory for a snapshot of the heap");
    moietyi_call_leave(&call);
    if (status == MOIETY_OK)
        *out = snapshot;
    else
        moiety_heap_snapshot_destroy(snapshot);
    return status;
}

void moiety_heap_snapshot_destroy(moiety_heap_snapshot *snapshot)
{
    if (!snapshot)
        return;
    moietyi_heap_release(&snapshot->copy);
    free(snapshot);
}

moiety_status moiety_heap_snapshot_summary(const moiety_heap_snapshot *snapshot,
                                           moiety_heap_summary *out)
{
    if (!snapshot || !out || out->struct_size < sizeof(*out)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_heap_snapshot_summary: snapshot or out is "
                            "NULL, or struct_size below %zu",
                            sizeof(*out));
    }
    *out = snapshot->summary;
    return MOIETY_OK;
}

const moiety_heap_segment *
moiety_heap_snapshot_segments(const moiety_heap_snapshot *snapshot,
                              size_t *out_count)
{
    size_t count = snapshot ? snapshot->copy.segment_count : 0;
    if (out_count)
        *out_count = count;
    return count ? snapshot->copy.segments : NULL;
}

const moiety_heap_interval *
moiety_heap_snapshot_intervals(const moiety_heap_snapshot *snapshot,
                               size_t *out_count)
{
    size_t count = snapshot ? snapshot->copy.interval_count : 0;
    if (out_count)
        *out_count = count;
    return count ? snapshot->copy.intervals : NULL;
}

const char *moiety_heap_kind_name(uint32_t kind)
{
    return kind < MOIETY_HEAP_KINDS ? names[kind] : "unknown";
}
