/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The peak of live bytes. A hit counts on its magazine only, so the pool's sum
 * is known only as far as thread states have reported. Each adds up a magazine
 * at calls that are no hits and change it, and when blocks leave it. It adds to
 * the pool's sum in steps of MOIETYI_LIVE_STEP_BYTES. The error is at most a
 * step, and what magazines can hold (docs/dev/adr/0032-live-blocks.md).
 */
#ifndef MOIETY_POOL_CACHE_LIVE_H_
#define MOIETY_POOL_CACHE_LIVE_H_

#include "pool/cache/state.h"

/* The bytes that a thread state may leave unreported, or this part of what is
 * reserved if that is more: moiety/stats.h documents it. */
#define MOIETYI_LIVE_STEP_BYTES (UINT64_C(256) << 10)
#define MOIETYI_LIVE_STEP_PART 1024U

static inline void moietyi_live_raise_peak(struct moietyi_engine *engine,
                                           uint64_t live_bytes)
{
    /* relaxed: a number, by which nothing else becomes visible. */
    uint64_t peak =
        atomic_load_explicit(&engine->live_peak_bytes, memory_order_relaxed);
    /* relaxed, both: the same. */
    while (peak < live_bytes && !atomic_compare_exchange_weak_explicit(
                                    &engine->live_peak_bytes, &peak, live_bytes,
                                    memory_order_relaxed, memory_order_relaxed))
        continue;
}

/* Bytes that a thread state has not reported. Below 0 it wraps, and the pool's
 * sum wraps too, which then is no peak. */
static inline void
moietyi_live_publish(struct moietyi_thread_state *thread_state)
{
    struct moietyi_engine *engine = thread_state->engine;
    uint64_t more = thread_state->untold_bytes;
    thread_state->untold_bytes = 0;
    /* relaxed: a sum. */
    uint64_t live_bytes = atomic_fetch_add_explicit(&engine->live_bytes, more,
                                                    memory_order_relaxed) +
                          more;
    if (more <= INT64_MAX && live_bytes <= INT64_MAX)
        moietyi_live_raise_peak(engine, live_bytes);
}

static inline void moietyi_live_add(struct moietyi_thread_state *thread_state,
                                    uint64_t more)
{
    thread_state->untold_bytes += more;
    if (thread_state->untold_bytes + MOIETYI_LIVE_STEP_BYTES <=
        2 * MOIETYI_LIVE_STEP_BYTES)
        return;
    uint64_t step =
        moietyi_segments_reserved_bytes(thread_state->engine->segments) /
        MOIETYI_LIVE_STEP_PART;
    if (step < MOIETYI_LIVE_STEP_BYTES)
        step = MOIETYI_LIVE_STEP_BYTES;
    if (thread_state->untold_bytes + step > 2 * step)
        moietyi_live_publish(thread_state);
}

/* Bytes that a magazine of a small class gave out, less those that it took,
 * since the last call. */
static inline uint64_t moietyi_live_of_magazine(struct moietyi_cache *cache,
                                                uint32_t class_index)
{
    const struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint64_t count = moietyi_count_read(&magazine->alloc_count) -
                     moietyi_count_read(&magazine->free_count);
    uint64_t more = count - cache->told_counts[class_index];
    cache->told_counts[class_index] = count;
    return more * moietyi_class_bytes(class_index);
}

/* The same of the bytes by which its blocks are shorter than their class. */
static inline uint64_t moietyi_live_of_uneven(struct moietyi_cache *cache)
{
    uint64_t bytes = moietyi_count_read(&cache->uneven_alloc_bytes) -
                     moietyi_count_read(&cache->uneven_free_bytes);
    uint64_t more = bytes - cache->told_uneven_bytes;
    cache->told_uneven_bytes = bytes;
    return more;
}

/* By the cache's owner. */
static inline void moietyi_live_tell(struct moietyi_cache *cache,
                                     uint32_t class_index)
{
    moietyi_live_add(cache->thread_state,
                     moietyi_live_of_uneven(cache) +
                         moietyi_live_of_magazine(cache, class_index));
}

/* The thread state's own counts, by its owner. */
static inline void
moietyi_live_tell_own(struct moietyi_thread_state *thread_state)
{
    const moietyi_counter *counts = thread_state->counts;
    uint64_t bytes = moietyi_count_read(&counts[MOIETYI_COUNT_ALLOC_BYTES]) -
                     moietyi_count_read(&counts[MOIETYI_COUNT_FREE_BYTES]);
    uint64_t more = bytes - thread_state->counted_bytes;
    thread_state->counted_bytes = bytes;
    if (more)
        moietyi_live_add(thread_state, more);
}

#endif
