/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of snapshots: arguments, tries, sums.
 */
#include "binade/heap.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/observe/heap/heap_copy.h"
#include "pool/observe/heap/stop_world.h"

#define PATIENCE_NS UINT64_C(1000000000)
#define NAP_NS 1000000L
#define NAME_BYTES 64U

struct binade_heap_snapshot {
    struct binadei_heap_copy copy;
    binade_heap_summary summary;
    char source_name[NAME_BYTES];
};

static const char *const names[] = {
    [BINADE_HEAP_FREE] = "free",       [BINADE_HEAP_USED] = "used",
    [BINADE_HEAP_CACHED] = "cached",   [BINADE_HEAP_DEPOT] = "depot",
    [BINADE_HEAP_LEAVING] = "leaving", [BINADE_HEAP_RETIRING] = "retiring",
    [BINADE_HEAP_KEPT] = "kept",       [BINADE_HEAP_LOST] = "lost",
};
_Static_assert(sizeof(names) / sizeof(names[0]) == BINADE_HEAP_KINDS,
               "a kind has no name");

/* What came of one try. */
enum outcome { COPIED, TOO_SMALL, DISTURBED };

static enum outcome copy_once(struct binadei_call *call,
                              struct binade_heap_snapshot *snapshot)
{
    uint64_t begin_ns = binadei_now_ns();
    if (!binadei_stop_world(call))
        return DISTURBED;
    snapshot->summary.time_ns = binadei_now_ns();
    bool is_whole = binadei_heap_fill(call->pool->body, &snapshot->copy);
    binadei_start_world(call);
    snapshot->summary.stopped_ns = binadei_now_ns() - begin_ns;
    return is_whole ? COPIED : TOO_SMALL;
}

static binade_status heap_copy_all(struct binadei_call *call,
                                   struct binade_heap_snapshot *snapshot)
{
    uint64_t end_ns = binadei_now_ns() + PATIENCE_NS;
    enum outcome outcome = TOO_SMALL;
    while (outcome != COPIED) {
        if (!binadei_heap_reserve(&snapshot->copy))
            return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                                "no memory for a snapshot of the heap");
        outcome = copy_once(call, snapshot);
        if (outcome != COPIED && binadei_now_ns() >= end_ns)
            return binadei_fail(BINADE_E_BUSY,
                                "other threads' calls did not come to an end");
        if (outcome == DISTURBED)
            binadei_nap(NAP_NS);
    }
    return BINADE_OK;
}

static void sum_up(struct binade_heap_snapshot *snapshot)
{
    binade_heap_summary *summary = &snapshot->summary;
    summary->struct_size = (uint32_t)sizeof(*summary);
    summary->segment_count = (uint32_t)snapshot->copy.segment_count;
    summary->interval_count = snapshot->copy.interval_count;
    summary->source_name = snapshot->source_name;
    for (size_t i = 0; i < snapshot->copy.interval_count; i++) {
        const binade_heap_interval *interval = &snapshot->copy.intervals[i];
        summary->bytes[interval->kind] += interval->size_bytes;
        summary->counts[interval->kind]++;
    }
}

static binade_status heap_take(struct binadei_call *call,
                               struct binade_heap_snapshot *snapshot)
{
    const char *name = call->pool->body->source_name;
    binade_status status = heap_copy_all(call, snapshot);
    if (status != BINADE_OK)
        return status;
    for (size_t i = 0; i + 1 < NAME_BYTES && name[i]; i++)
        snapshot->source_name[i] = name[i];
    binadei_heap_join(&snapshot->copy, snapshot->summary.time_ns);
    sum_up(snapshot);
    return BINADE_OK;
}

binade_status binade_heap_snapshot_create(binade_pool *pool,
                                          binade_heap_snapshot **out)
{
    struct binadei_call call;
    if (!out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_heap_snapshot_create: out is NULL");
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    struct binade_heap_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    status = snapshot ? heap_take(&call, snapshot)
                      : binadei_fail(BINADE_E_NO_HOST_MEMORY,
                                     "no memory for a snapshot of the heap");
    binadei_call_leave(&call);
    if (status == BINADE_OK)
        *out = snapshot;
    else
        binade_heap_snapshot_destroy(snapshot);
    return status;
}

void binade_heap_snapshot_destroy(binade_heap_snapshot *snapshot)
{
    if (!snapshot)
        return;
    binadei_heap_release(&snapshot->copy);
    free(snapshot);
}

binade_status binade_heap_snapshot_summary(const binade_heap_snapshot *snapshot,
                                           binade_heap_summary *out)
{
    if (!snapshot || !out || out->struct_size < sizeof(*out)) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_heap_snapshot_summary: snapshot or out is "
                            "NULL, or struct_size below %zu",
                            sizeof(*out));
    }
    *out = snapshot->summary;
    return BINADE_OK;
}

const binade_heap_segment *
binade_heap_snapshot_segments(const binade_heap_snapshot *snapshot,
                              size_t *out_count)
{
    size_t count = snapshot ? snapshot->copy.segment_count : 0;
    if (out_count)
        *out_count = count;
    return count ? snapshot->copy.segments : NULL;
}

const binade_heap_interval *
binade_heap_snapshot_intervals(const binade_heap_snapshot *snapshot,
                               size_t *out_count)
{
    size_t count = snapshot ? snapshot->copy.interval_count : 0;
    if (out_count)
        *out_count = count;
    return count ? snapshot->copy.intervals : NULL;
}

const char *binade_heap_kind_name(uint32_t kind)
{
    return kind < BINADE_HEAP_KINDS ? names[kind] : "unknown";
}
