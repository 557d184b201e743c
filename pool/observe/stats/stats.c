/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The snapshot, and trimming.
 */
#include "binade/stats.h"

#include <stddef.h>
#include <string.h>

#include "pool/base/failure.h"
#include "pool/cache/magazine.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/core/recorded.h"
#include "pool/oom/escalate.h"

/* Version 0.1.0 ended here. */
#define STATS_BYTES_MIN                                                        \
    (offsetof(binade_stats, ladder_last_look) + sizeof(uint64_t))

static void stats_fill_blocks(binade_stats *stats,
                              const struct binadei_sums *sums)
{
    const uint64_t *counts = sums->counts;
    stats->allocation_allocated = counts[BINADEI_COUNT_ALLOCS];
    stats->allocation_freed = counts[BINADEI_COUNT_FREES];
    stats->allocation_current =
        stats->allocation_allocated - stats->allocation_freed;
    stats->allocated_bytes_allocated = counts[BINADEI_COUNT_ALLOC_BYTES];
    stats->allocated_bytes_freed = counts[BINADEI_COUNT_FREE_BYTES];
    stats->allocated_bytes_current =
        stats->allocated_bytes_allocated - stats->allocated_bytes_freed;
    stats->requested_bytes_allocated = counts[BINADEI_COUNT_REQUESTED_BYTES];
    stats->alloc_retries = counts[BINADEI_COUNT_RETRIES];
    stats->ooms = counts[BINADEI_COUNT_OOMS];
    stats->cached_bytes = sums->cached_bytes;
    stats->retiring_bytes = sums->retiring_bytes;
    stats->cache_misses = counts[BINADEI_COUNT_MISSES];
    stats->cache_hits = stats->allocation_allocated > stats->cache_misses
                            ? stats->allocation_allocated - stats->cache_misses
                            : 0;
    stats->threads = sums->thread_count;
    stats->streams = sums->stream_count;
    stats->cache_bound_halvings = counts[BINADEI_COUNT_SHRINKS];
}

static void fill_events(binade_stats *stats, const uint64_t *counts)
{
    const uint64_t *by_stream = &counts[BINADEI_COUNT_STREAM];
    stats->depot_exchanges = counts[BINADEI_COUNT_DEPOT_EXCHANGES];
    stats->batches_retired = by_stream[BINADEI_STREAM_EPOCHS];
    stats->events_recorded = by_stream[BINADEI_STREAM_EVENTS];
    stats->context_events_recorded = by_stream[BINADEI_STREAM_CONTEXT_EVENTS];
    stats->events_queried = by_stream[BINADEI_STREAM_QUERIES];
    stats->stream_waits = by_stream[BINADEI_STREAM_WAITS];
    stats->batches_guarded = by_stream[BINADEI_STREAM_GUARDED];
    stats->captures_disturbed = by_stream[BINADEI_STREAM_DISTURBED];
    stats->double_frees_found = counts[BINADEI_COUNT_DOUBLE_FREES];
    stats->others_asked = counts[BINADEI_COUNT_OTHERS_ASKED];
    stats->others_got_bytes = counts[BINADEI_COUNT_OTHERS_GOT_BYTES];
    stats->others_given_bytes = counts[BINADEI_COUNT_OTHERS_GIVEN_BYTES];
    const uint64_t *escalation = &counts[BINADEI_COUNT_ESCALATION];
    stats->ladder_finished_batches = escalation[BINADE_OOM_FINISHED_BATCHES];
    stats->ladder_grow = escalation[BINADE_OOM_GROW];
    stats->ladder_own_cache = escalation[BINADE_OOM_OWN_CACHE];
    stats->ladder_orphans = escalation[BINADE_OOM_ORPHANS];
    stats->ladder_idle_threads = escalation[BINADE_OOM_IDLE_THREADS];
    stats->ladder_trim = escalation[BINADE_OOM_TRIM];
    stats->ladder_hand_over = escalation[BINADE_OOM_HAND_OVER];
    stats->ladder_callbacks = escalation[BINADE_OOM_CALLBACKS];
    stats->ladder_wait = escalation[BINADE_OOM_WAIT];
    stats->ladder_last_look = escalation[BINADE_OOM_LAST_LOOK];
    stats->ladder_failed = escalation[BINADEI_ESCALATION_FAILED];
}

static void stats_fill_segments(binade_stats *stats,
                                const struct binadei_pool_body *body)
{
    struct binadei_segments_stats segments;
    binadei_segments_stats(body->segments, &segments);
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
        binadei_buddy_free_grains(body->buddy) * BINADEI_GRAIN_BYTES;
    stats->longest_run_bytes =
        binadei_buddy_longest_page_run(body->buddy) * BINADEI_PAGE_BYTES;
    stats->limit_bytes = binadei_limit_of(body);
}

/* As much as the caller has room for. */
static void give_out(binade_stats *stats, binade_stats *out)
{
    if (out->struct_size < stats->struct_size)
        stats->struct_size = out->struct_size;
    memcpy(out, stats, stats->struct_size);
}

binade_status binade_pool_stats(binade_pool *pool, binade_stats *out)
{
    struct binadei_call call;
    struct binadei_sums sums;
    binade_stats stats = {.struct_size = sizeof(stats)};
    if (!out || out->struct_size < STATS_BYTES_MIN) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_pool_stats: out is NULL or its "
                            "struct_size below %zu",
                            STATS_BYTES_MIN);
    }
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    binadei_engine_sums(call.engine, NULL, &sums);
    stats_fill_blocks(&stats, &sums);
    fill_events(&stats, sums.counts);
    stats_fill_segments(&stats, pool->body);
    stats.cache_bound_bytes =
        binadei_bound(call.engine, call.engine->cache_bytes);
    stats.allocated_bytes_peak =
        binadei_engine_live_peak(call.engine, stats.allocated_bytes_current);
    pool->body->ops->fill(&call, &stats);
    binadei_call_leave(&call);
    give_out(&stats, out);
    return BINADE_OK;
}

binade_status binade_pool_trim(binade_pool *pool, uint64_t keep_bytes,
                               uint64_t *out_bytes)
{
    struct binadei_call call;
    uint64_t trimmed_bytes = 0;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    binadei_call_pass_gate(&call);
    call.is_pressed = true;
    call.may_wait = true;
    uint64_t swept_bytes = pool->body->ops->sweep(&call);
    /* Threads that sleep are not disturbed where there is nothing to do. */
    binadei_reclaim_cached(&call, binadei_segments_reserved_bytes(
                                      pool->body->segments) > keep_bytes);
    status = binadei_trim_for(&call, keep_bytes, &trimmed_bytes);
    trimmed_bytes += swept_bytes;
    const struct binadei_note note = {.kind = BINADE_HISTORY_TRIM,
                                      .status = status,
                                      .size_bytes = trimmed_bytes};
    binadei_note(&call, &note);
    binadei_call_end(&call);
    if (out_bytes)
        *out_bytes = trimmed_bytes;
    return status;
}
