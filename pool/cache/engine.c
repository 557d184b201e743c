/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The beginning and the end of a pool's caches, and what they add up to.
 */
#include "pool/cache/cache.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/barrier.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/later.h"
#include "pool/cache/flush.h"
#include "pool/cache/live.h"
#include "pool/cache/magazine.h"
#include "pool/cache/registry.h"
#include "pool/cache/uses.h"
#include "pool/driver/section.h"
#include "pool/ring/ring.h"
#include "pool/stream/capture_guard.h"
#include "pool/stream/epoch.h"
#include "pool/stream/event.h"
#include "pool/stream/stream_state.h"

static moiety_status engine_no_memory(void)
{
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for a pool");
}

static struct moietyi_engine *engine_of(struct moietyi_streams *streams)
{
    return (struct moietyi_engine *)((char *)streams -
                                     offsetof(struct moietyi_engine, streams));
}

/* No hits while a capture guard is held: each call checks whether its stream
 * captures. */
static void mark_guarded(struct moietyi_streams *streams, bool is_held)
{
    struct moiety_pool *pool = engine_of(streams)->pool;
    if (is_held) {
        /* AT, relaxed: advice to hits. */
        atomic_fetch_or_explicit(&pool->attention, MOIETYI_ATTENTION_GUARD,
                                 memory_order_relaxed);
    } else {
        /* AT, relaxed: the same. */
        atomic_fetch_and_explicit(&pool->attention, ~MOIETYI_ATTENTION_GUARD,
                                  memory_order_relaxed);
    }
}

static void forget_uses(struct moietyi_streams *streams)
{
    moietyi_uses_forget(engine_of(streams));
}

static void engine_fill(struct moietyi_engine *engine,
                        const struct moietyi_engine_options *options)
{
    engine->pool = options->pool;
    engine->segments = options->segments;
    engine->lookup = moietyi_segments_lookup(options->segments);
    engine->thread_cache_bytes = options->thread_cache_bytes;
    engine->cache_bytes = options->cache_bytes;
    atomic_init(&engine->halvings, MOIETYI_HALVINGS_GROWN);
    engine->streams.driver = options->driver;
    engine->streams.space = options->space;
    engine->streams.own_context = options->own_context;
    engine->streams.hooks = (struct moietyi_stream_hooks){
        forget_uses, moietyi_epochs_close_before_capture_guard, mark_guarded};
    engine->noted_pages = options->noted_pages;
    if (engine->noted_pages)
        engine->notes = moietyi_notes_create(engine->noted_pages);
    pthread_mutex_init(&engine->uses_lock, NULL);
    pthread_mutex_init(&engine->stop_lock, NULL);
}

/* From now on no hit is plain. */
static bool keep_history(struct moietyi_engine *engine,
                         const struct moietyi_engine_options *options)
{
    engine->history = moietyi_history_create(options->history_entries);
    if (!engine->history)
        return false;
    /* AT, relaxed: nobody knows the pool yet. */
    atomic_fetch_or_explicit(&options->pool->attention,
                             MOIETYI_ATTENTION_RECORDED, memory_order_relaxed);
    return true;
}

/* What engine_fill() made. */
static void free_parts(struct moietyi_engine *engine)
{
    moietyi_notes_destroy(engine->notes, engine->noted_pages);
    pthread_mutex_destroy(&engine->uses_lock);
    pthread_mutex_destroy(&engine->stop_lock);
    free(engine);
}

moiety_status
moietyi_engine_create(const struct moietyi_engine_options *options,
                      struct moietyi_engine **out)
{
    struct moietyi_engine *engine =
        aligned_alloc(alignof(struct moietyi_engine), sizeof(*engine));
    if (!engine)
        return engine_no_memory();
    memset(engine, 0, sizeof(*engine));
    engine_fill(engine, options);
    if (!moietyi_streams_init(&engine->streams, options->any_heap)) {
        free_parts(engine);
        return engine_no_memory();
    }
    if ((options->noted_pages && !engine->notes) ||
        (options->history_entries && !keep_history(engine, options))) {
        moietyi_streams_fini(&engine->streams);
        free_parts(engine);
        return engine_no_memory();
    }
    options->pool->lookup = engine->lookup;
    options->pool->classes = moietyi_space_classes(options->space);
    options->pool->engine = engine;
    /* The first barrier takes the kernel milliseconds in a process with several
     * threads, so no allocation should make it. */
    (void)moietyi_barrier_is_there();
    moietyi_capture_guard_join(&engine->streams);
    *out = engine;
    return MOIETY_OK;
}

moiety_status moietyi_engine_make_tags(struct moietyi_engine *engine,
                                       uint32_t page_capacity)
{
    struct moietyi_tags *nobody = NULL;
    struct moietyi_tags *fresh;
    if (moietyi_tags(engine))
        return MOIETY_OK;
    moiety_status status = moietyi_tags_create(page_capacity, &fresh);
    if (status != MOIETY_OK)
        return status;
    /* TG.release: the tags. If another thread was faster: relaxed, since users
     * load the pointer again. */
    if (!atomic_compare_exchange_strong_explicit(&engine->tags, &nobody, fresh,
                                                 memory_order_release,
                                                 memory_order_relaxed))
        moietyi_tags_destroy(fresh);
    return MOIETY_OK;
}

static void give_cache(struct moietyi_thread_state *by,
                       struct moietyi_cache *cache)
{
    for (uint32_t i = 0; i < MOIETYI_CLASSES; i++) {
        struct moietyi_magazine *magazine = &cache->magazines[i];
        uint32_t count = moietyi_magazine_count(magazine);
        for (uint32_t j = 0; j < count; j++)
            moietyi_give_block(by, moietyi_entry_address(magazine->entries[j]));
        moietyi_magazine_set(magazine, 0);
    }
}

/* Meanwhile others may take the thread's caches of other pools. */
static void engine_nap(long *duration_ns, long most_ns)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    bool is_inside = moietyi_thread_is_inside(thread);
    if (is_inside)
        moietyi_thread_leave(thread);
    moietyi_nap_longer(duration_ns, most_ns);
    if (is_inside)
        moietyi_thread_reenter(thread);
    moietyi_interrupt_ask();
}

/* Work of a lost context is over, and that is no error. */
static moiety_status of_the_end(moiety_status status)
{
    return status == MOIETY_E_CONTEXT_DESTROYED ||
                   status == MOIETY_E_DEINITIALIZED
               ? MOIETY_OK
               : status;
}

moiety_status moietyi_engine_look(struct moietyi_engine *engine, bool at_rest)
{
    return moietyi_context_is_lost(engine->streams.own_context)
               ? MOIETY_OK
               : of_the_end(moietyi_look_last(&engine->streams, at_rest));
}

moiety_status moietyi_engine_drain(struct moietyi_engine *engine, bool is_over)
{
    /* A thread state without a thread, which needs no memory. */
    struct moietyi_thread_state by = {.engine = engine};
    moiety_status status = MOIETY_OK;
    if (!is_over && !moietyi_context_is_lost(engine->streams.own_context))
        status = moietyi_synchronise_last(&engine->streams, engine_nap);
    if (moietyi_end_is_refused(status))
        return status;
    moietyi_capture_guard_leave(&engine->streams);
    for (struct moietyi_thread_state *thread_state = engine->thread_states;
         thread_state; thread_state = thread_state->of_pool)
        for (struct moietyi_cache *cache = thread_state->caches; cache;
             cache = cache->next)
            give_cache(&by, cache);
    for (unsigned i = 0; i < moietyi_stream_state_count(&engine->streams); i++)
        moietyi_epoch_finish(moietyi_stream_state_at(&engine->streams, i));
    return of_the_end(status);
}

void moietyi_engine_destroy(struct moietyi_engine *engine)
{
    moietyi_thread_states_destroy(engine);
    moietyi_uses_destroy(engine);
    moietyi_streams_fini(&engine->streams);
    moietyi_history_destroy(engine->history);
    moietyi_tags_destroy(moietyi_tags(engine));
    free_parts(engine);
}

static void add_magazines(const struct moietyi_cache *cache,
                          struct moietyi_sums *sums)
{
    uint64_t cached_bytes = moietyi_count_read(&cache->uneven_cached_bytes);
    moietyi_cache_counts(cache, sums->counts);
    for (uint32_t i = 0; i < MOIETYI_CLASSES; i++)
        cached_bytes += moietyi_magazine_count(&cache->magazines[i]) *
                        moietyi_class_bytes(i);
    /* Below 0 if the owner went on meanwhile, or if a double free counted a
     * block longer than its allocation did. */
    if (cached_bytes <= INT64_MAX)
        sums->cached_bytes += cached_bytes;
}

static void add_thread_state(const struct moietyi_thread_state *thread_state,
                             const struct moietyi_thread_state *own,
                             struct moietyi_sums *sums)
{
    uint64_t before_bytes = sums->cached_bytes;
    sums->thread_count += thread_state->thread != NULL;
    for (unsigned i = 0; i < MOIETYI_COUNTS; i++)
        if (i != MOIETYI_COUNT_MISSES)
            sums->counts[i] += moietyi_count_read(&thread_state->counts[i]);
    for (const struct moietyi_cache *cache = thread_state->caches; cache;
         cache = cache->next)
        add_magazines(cache, sums);
    /* Read after the allocations, so that there are never more hits than
     * allocations. */
    sums->counts[MOIETYI_COUNT_MISSES] +=
        moietyi_count_read(&thread_state->counts[MOIETYI_COUNT_MISSES]);
    if (thread_state == own)
        sums->own_bytes += sums->cached_bytes - before_bytes;
    else if (!thread_state->thread)
        sums->ended_bytes += sums->cached_bytes - before_bytes;
}

/* Counters are read one by one while threads go on, so a part may be newer than
 * its whole. It is cut to the whole, so that no difference wraps. */
static void keep_parts_within(uint64_t *counts)
{
    static const struct {
        enum moietyi_count part, whole;
    } pairs[] = {
        {MOIETYI_COUNT_FREES, MOIETYI_COUNT_ALLOCS},
        {MOIETYI_COUNT_FREE_BYTES, MOIETYI_COUNT_ALLOC_BYTES},
        {MOIETYI_COUNT_REQUESTED_BYTES, MOIETYI_COUNT_ALLOC_BYTES},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (counts[pairs[i].part] > counts[pairs[i].whole])
            counts[pairs[i].part] = counts[pairs[i].whole];
}

void moietyi_engine_sums(struct moietyi_engine *engine,
                         const struct moietyi_thread_state *own,
                         struct moietyi_sums *out)
{
    memset(out, 0, sizeof(*out));
    moietyi_registry_lock();
    memcpy(out->counts, engine->gone, sizeof(out->counts));
    for (struct moietyi_thread_state *thread_state = engine->thread_states;
         thread_state; thread_state = thread_state->of_pool)
        add_thread_state(thread_state, own, out);
    moietyi_registry_unlock();
    out->counts[MOIETYI_COUNT_STREAM + MOIETYI_STREAM_CONTEXT_EVENTS] +=
        moietyi_count_read(&engine->streams.guard_events);
    out->stream_count = moietyi_stream_states_open_count(&engine->streams);
    keep_parts_within(out->counts);
    out->retiring_bytes = moietyi_epochs_bytes(&engine->streams);
}

uint64_t moietyi_engine_live_peak(struct moietyi_engine *engine,
                                  uint64_t live_bytes)
{
    moietyi_live_raise_peak(engine, live_bytes);
    /* relaxed: a number. */
    return atomic_load_explicit(&engine->live_peak_bytes, memory_order_relaxed);
}

void moietyi_engine_reset_live_peak(struct moietyi_engine *engine)
{
    struct moietyi_sums sums;
    moietyi_engine_sums(engine, NULL, &sums);
    /* relaxed: a number. */
    atomic_store_explicit(&engine->live_peak_bytes,
                          sums.counts[MOIETYI_COUNT_ALLOC_BYTES] -
                              sums.counts[MOIETYI_COUNT_FREE_BYTES],
                          memory_order_relaxed);
}
