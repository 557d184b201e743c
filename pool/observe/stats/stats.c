/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The snapshot, and trimming.
 */
#include "moiety/stats.h"

#include <stddef.h>
#include <string.h>

#include "pool/base/failure.h"
#include "pool/base/later.h"
#include "pool/cache/magazine.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/core/recorded.h"
#include "pool/oom/escalate.h"

/* Version 0.1.0 ended here. */
#define STATS_BYTES_MIN                                                        \
    (offsetof(moiety_pool_stats, double_frees_found) + sizeof(uint64_t))

/* Sums read while threads work may be too low, and are never too high: so the
 * most that was reported is nearer. */
static uint64_t stats_raise_hits(struct moietyi_pool_body *body, uint64_t hits)
{
    /* relaxed, all: see body.h. */
    uint64_t told =
        atomic_load_explicit(&body->told_hits, memory_order_relaxed);
    /* relaxed, both: as above. */
    while (told < hits && !atomic_compare_exchange_weak_explicit(
                              &body->told_hits, &told, hits,
                              memory_order_relaxed, memory_order_relaxed))
        continue;
    return told < hits ? hits : told;
}

static void stats_fill_blocks(moiety_pool_stats *stats,
                              const struct moietyi_sums *sums)
{
    const uint64_t *counts = sums->counts;
    stats->allocation_allocated = counts[MOIETYI_COUNT_ALLOCS];
    stats->allocation_freed = counts[MOIETYI_COUNT_FREES];
    stats->allocation_current =
        stats->allocation_allocated - stats->allocation_freed;
    stats->allocated_bytes_allocated = counts[MOIETYI_COUNT_ALLOC_BYTES];
    stats->allocated_bytes_freed = counts[MOIETYI_COUNT_FREE_BYTES];
    stats->allocated_bytes_current =
        stats->allocated_bytes_allocated - stats->allocated_bytes_freed;
    stats->requested_bytes_allocated = counts[MOIETYI_COUNT_REQUESTED_BYTES];
    stats->alloc_retries = counts[MOIETYI_COUNT_RETRIES];
    stats->ooms = counts[MOIETYI_COUNT_OOMS];
    stats->cached_bytes = sums->cached_bytes;
    stats->retiring_bytes = sums->retiring_bytes;
    stats->cache_misses = counts[MOIETYI_COUNT_MISSES];
    stats->cache_hits = stats->allocation_allocated > stats->cache_misses
                            ? stats->allocation_allocated - stats->cache_misses
                            : 0;
    stats->threads = sums->thread_count;
    stats->streams = sums->stream_count;
    stats->cache_bound_halvings = counts[MOIETYI_COUNT_SHRINKS];
}

static void fill_events(moiety_pool_stats *stats, const uint64_t *counts)
{
    const uint64_t *by_stream = &counts[MOIETYI_COUNT_STREAM];
    stats->ages_closed = by_stream[MOIETYI_STREAM_EPOCHS];
    stats->events_recorded = by_stream[MOIETYI_STREAM_EVENTS];
    stats->context_events_recorded = by_stream[MOIETYI_STREAM_CONTEXT_EVENTS];
    stats->stream_waits = by_stream[MOIETYI_STREAM_WAITS];
    stats->ages_guarded = by_stream[MOIETYI_STREAM_GUARDED];
    stats->captures_disturbed = by_stream[MOIETYI_STREAM_DISTURBED];
    stats->double_frees_found = counts[MOIETYI_COUNT_DOUBLE_FREES];
    stats->others_asked = counts[MOIETYI_COUNT_OTHERS_ASKED];
    stats->others_got_bytes = counts[MOIETYI_COUNT_OTHERS_GOT_BYTES];
    stats->others_given_bytes = counts[MOIETYI_COUNT_OTHERS_GIVEN_BYTES];
    memcpy(stats->oom_steps, &counts[MOIETYI_COUNT_ESCALATION],
           sizeof(stats->oom_steps));
}

static void stats_fill_segments(moiety_pool_stats *stats,
                                const struct moietyi_pool_body *body)
{
    struct moietyi_segments_stats segments;
    moietyi_segments_stats(body->segments, &segments);
    stats->segment_current = segments.segment_count;
    stats->segment_allocated = segments.grow_count;
    stats->segment_freed = segments.trim_count;
    stats->reserved_bytes_current = segments.reserved_bytes;
    stats->reserved_bytes_peak = segments.peak_bytes;
    stats->unreleased_bytes = segments.unreleased_bytes;
    stats->mapped_moves = segments.move_count;
    stats->mapped_moved_bytes = segments.moved_bytes;
    stats->mapped_left_bytes = segments.left_bytes;
    stats->mapped_paused_bytes = segments.empty_bytes;
    stats->free_bytes =
        moietyi_space_free_grains(body->space) * MOIETYI_GRAIN_BYTES;
    stats->longest_run_bytes =
        moietyi_space_longest_page_run(body->space) * MOIETYI_PAGE_BYTES;
    stats->limit_bytes = moietyi_limit_of(body);
}

/* As much as the caller has room for. */
static void give_out(moiety_pool_stats *stats, moiety_pool_stats *out)
{
    if (out->struct_size < stats->struct_size)
        stats->struct_size = out->struct_size;
    memcpy(out, stats, stats->struct_size);
}

moiety_status moiety_pool_get_stats(moiety_pool *pool, moiety_pool_stats *out)
{
    struct moietyi_call call;
    struct moietyi_sums sums;
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    if (!out || out->struct_size < STATS_BYTES_MIN) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_pool_get_stats: out is NULL or its "
                            "struct_size below %zu",
                            STATS_BYTES_MIN);
    }
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    moietyi_engine_sums(call.engine, NULL, &sums);
    stats_fill_blocks(&stats, &sums);
    stats.cache_hits = stats_raise_hits(pool->body, stats.cache_hits);
    fill_events(&stats, sums.counts);
    stats_fill_segments(&stats, pool->body);
    stats.cache_bound_bytes =
        moietyi_bound(call.engine, call.engine->cache_bytes);
    stats.allocated_bytes_peak =
        moietyi_engine_live_peak(call.engine, stats.allocated_bytes_current);
    pool->body->ops->fill(&call, &stats);
    moietyi_call_leave(&call);
    give_out(&stats, out);
    return MOIETY_OK;
}

moiety_status moiety_pool_trim(moiety_pool *pool, uint64_t keep_bytes,
                               uint64_t *out_bytes)
{
    struct moietyi_call call;
    uint64_t trimmed_bytes = 0;
    moietyi_later_run(MOIETYI_END_GLANCES);
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    moietyi_call_pass_gate(&call);
    call.is_pressed = true;
    call.may_wait = true;
    uint64_t swept_bytes = pool->body->ops->sweep(&call);
    /* Threads that sleep are not disturbed where there is nothing to do. */
    moietyi_reclaim_cached(&call, moietyi_segments_reserved_bytes(
                                      pool->body->segments) > keep_bytes);
    status = moietyi_trim_for(&call, keep_bytes, &trimmed_bytes);
    trimmed_bytes += swept_bytes;
    const struct moietyi_note note = {.kind = MOIETY_HISTORY_TRIM,
                                      .status = status,
                                      .size_bytes = trimmed_bytes};
    moietyi_note(&call, &note);
    moietyi_call_end(&call);
    if (out_bytes)
        *out_bytes = trimmed_bytes;
    return status;
}
