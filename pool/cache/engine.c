/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The beginning and the end of a pool's caches, and what they add up to.
 */
#include "pool/cache/cache.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/barrier.h"
#include "pool/base/failure.h"
#include "pool/cache/bundle.h"
#include "pool/cache/entry.h"
#include "pool/cache/epoch.h"
#include "pool/cache/guard.h"
#include "pool/cache/history.h"
#include "pool/cache/magazine.h"
#include "pool/cache/record.h"
#include "pool/cache/registry.h"
#include "pool/cache/slot.h"
#include "pool/cache/uses.h"
#include "pool/driver/section.h"

static binade_status no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY, "no memory for a pool");
}

/* From now on the pool takes part in capture guards. */
static void announce(struct binadei_engine *engine)
{
    binadei_registry_lock();
    engine->next = binadei_engines;
    binadei_engines = engine;
    /* AT, relaxed: nobody knows the pool yet. */
    if (binadei_guard_is_held())
        atomic_fetch_or_explicit(&engine->pool->attention,
                                 BINADEI_ATTENTION_GUARD, memory_order_relaxed);
    binadei_registry_unlock();
}

static void withdraw(struct binadei_engine *engine)
{
    binadei_registry_lock();
    struct binadei_engine **at = &binadei_engines;
    while (*at != engine)
        at = &(*at)->next;
    *at = engine->next;
    binadei_registry_unlock();
}

static void fill(struct binadei_engine *engine,
                 const struct binadei_engine_options *options)
{
    engine->pool = options->pool;
    engine->driver = options->driver;
    engine->segments = options->segments;
    engine->buddy = options->buddy;
    engine->lookup = binadei_segments_lookup(options->segments);
    engine->thread_cache_bytes = options->thread_cache_bytes;
    engine->cache_bytes = options->cache_bytes;
    engine->home = options->home;
    engine->contexts[0] = options->home->handle;
    atomic_init(&engine->context_count, 1);
    engine->noted_pages = options->noted_pages;
    if (engine->noted_pages)
        engine->notes = binadei_notes_create(engine->noted_pages);
    pthread_mutex_init(&engine->slots_lock, NULL);
    pthread_mutex_init(&engine->uses_lock, NULL);
    pthread_mutex_init(&engine->stop_lock, NULL);
}

/* From now on no hit is plain. */
static bool keep_history(struct binadei_engine *engine,
                         const struct binadei_engine_options *options)
{
    engine->history = binadei_history_create(options->history_entries);
    if (!engine->history)
        return false;
    /* AT, relaxed: nobody knows the pool yet. */
    atomic_fetch_or_explicit(&options->pool->attention,
                             BINADEI_ATTENTION_RECORDED, memory_order_relaxed);
    return true;
}

static void prepare_events(struct binadei_engine *engine, unsigned context)
{
    struct binadei_section section;
    if (binadei_context_enter(engine->home, &section) != BINADE_OK)
        return;
    binadei_context_epochs_prepare(engine, context);
    (void)binadei_section_leave(&section);
}

binade_status
binadei_engine_create(const struct binadei_engine_options *options,
                      struct binadei_engine **out)
{
    struct binadei_engine *engine =
        aligned_alloc(alignof(struct binadei_engine), sizeof(*engine));
    if (!engine)
        return no_memory();
    memset(engine, 0, sizeof(*engine));
    fill(engine, options);
    engine->done = binadei_slot_make(engine, BINADEI_SLOT_DONE, NULL);
    engine->any =
        binadei_slot_make(engine, BINADEI_SLOT_ANY, options->any_maps);
    if (!engine->done || !engine->any ||
        (options->noted_pages && !engine->notes) ||
        (options->history_entries && !keep_history(engine, options))) {
        binadei_slots_destroy(engine);
        binadei_notes_destroy(engine->notes, engine->noted_pages);
        free(engine);
        return no_memory();
    }
    options->pool->lookup = engine->lookup;
    options->pool->classes = binadei_buddy_classes(options->buddy);
    options->pool->engine = engine;
    /* The kernel takes milliseconds for the first of a process with several
     * threads: not in somebody's allocation. */
    (void)binadei_barrier_is_there();
    prepare_events(engine, 0);
    announce(engine);
    *out = engine;
    return BINADE_OK;
}

binade_status binadei_engine_add_context(struct binadei_engine *engine,
                                         CUcontext context)
{
    binade_status status = BINADE_OK;
    pthread_mutex_lock(&engine->slots_lock);
    /* relaxed: changed under the lock that is held. */
    unsigned count =
        atomic_load_explicit(&engine->context_count, memory_order_relaxed);
    unsigned at = 0;
    while (at < count && engine->contexts[at] != context)
        at++;
    if (at == BINADEI_CONTEXTS_MAX) {
        status = binadei_fail(BINADE_E_TOO_LARGE,
                              "a pool knows %u further contexts at most",
                              BINADEI_CONTEXTS_MAX - 1);
    } else if (at == count) {
        engine->contexts[at] = context;
        prepare_events(engine, at);
        /* CX.release: who sees the count sees the context. */
        atomic_store_explicit(&engine->context_count, count + 1,
                              memory_order_release);
    }
    pthread_mutex_unlock(&engine->slots_lock);
    return status;
}

binade_status binadei_engine_make_tags(struct binadei_engine *engine,
                                       uint32_t page_capacity)
{
    struct binadei_tags *nobody = NULL;
    struct binadei_tags *fresh;
    if (binadei_tags(engine))
        return BINADE_OK;
    binade_status status = binadei_tags_create(page_capacity, &fresh);
    if (status != BINADE_OK)
        return status;
    /* TG.release: the words. If another thread was faster: relaxed, since
     * who uses them loads the pointer again. */
    if (!atomic_compare_exchange_strong_explicit(&engine->tags, &nobody, fresh,
                                                 memory_order_release,
                                                 memory_order_relaxed))
        binadei_tags_destroy(fresh);
    return BINADE_OK;
}

static void give_cache(struct binadei_member *by, struct binadei_cache *cache)
{
    for (uint32_t i = 0; i < BINADEI_CLASSES; i++) {
        struct binadei_magazine *magazine = &cache->magazines[i];
        uint32_t count = binadei_magazine_count(magazine);
        for (uint32_t j = 0; j < count; j++)
            binadei_give_block(by, binadei_entry_address(magazine->entries[j]));
        binadei_magazine_set(magazine, 0);
    }
}

static void give_slot(struct binadei_member *by, struct binadei_slot *slot)
{
    for (uint32_t i = 0; i < BINADEI_CLASSES; i++) {
        struct binadei_bundle *bundle;
        while ((bundle = binadei_depot_take(by, slot, i)))
            binadei_give_bundle(by, bundle);
    }
    binadei_epoch_finish(slot);
}

binade_status binadei_engine_drain(struct binadei_engine *engine)
{
    /* Nobody's, so that it needs no memory. */
    struct binadei_member by = {.engine = engine};
    binade_status status = BINADE_OK;
    bool is_lost = binadei_context_is_lost(engine->home);
    if (!is_lost && !binadei_guard_recorder_begin())
        return binadei_fail(BINADE_E_BUSY,
                            "a capture guard is held: waiting for the "
                            "context's work would break the capture");
    if (!is_lost) {
        status = binadei_synchronise(engine);
        binadei_guard_recorder_end();
    }
    /* relaxed, here and below: no call is under way. */
    unsigned count =
        atomic_load_explicit(&engine->slot_count, memory_order_relaxed);
    withdraw(engine);
    for (struct binadei_member *member = engine->members; member;
         member = member->of_pool)
        for (struct binadei_cache *cache = member->caches; cache;
             cache = cache->next)
            give_cache(&by, cache);
    /* relaxed: as above. */
    for (unsigned i = 0; i < count; i++)
        give_slot(
            &by, atomic_load_explicit(&engine->slots[i], memory_order_relaxed));
    binadei_spares_leave(&by);
    return binadei_context_is_lost(engine->home) ? BINADE_OK : status;
}

void binadei_engine_destroy(struct binadei_engine *engine)
{
    binadei_members_destroy(engine);
    binadei_uses_destroy(engine);
    binadei_slots_destroy(engine);
    binadei_spares_destroy(engine);
    binadei_context_epochs_destroy(engine);
    binadei_history_destroy(engine->history);
    binadei_tags_destroy(binadei_tags(engine));
    binadei_notes_destroy(engine->notes, engine->noted_pages);
    pthread_mutex_destroy(&engine->slots_lock);
    pthread_mutex_destroy(&engine->uses_lock);
    pthread_mutex_destroy(&engine->stop_lock);
    free(engine);
}

static void add_magazines(const struct binadei_cache *cache,
                          struct binadei_sums *sums)
{
    uint64_t cached_bytes = binadei_count_read(&cache->uneven_cached_bytes);
    /* Before the counts, which come first where a block is counted. */
    sums->counts[BINADEI_COUNT_ALLOC_BYTES] +=
        binadei_count_read(&cache->uneven_alloc_bytes);
    sums->counts[BINADEI_COUNT_FREE_BYTES] +=
        binadei_count_read(&cache->uneven_free_bytes);
    for (uint32_t i = 0; i < BINADEI_CLASSES; i++) {
        const struct binadei_magazine *magazine = &cache->magazines[i];
        uint64_t bytes = binadei_class_is_small(i) ? binadei_class_bytes(i) : 0;
        uint64_t allocs = binadei_count_read(&magazine->alloc_count);
        uint64_t frees = binadei_count_read(&magazine->free_count);
        sums->counts[BINADEI_COUNT_ALLOCS] += allocs;
        sums->counts[BINADEI_COUNT_ALLOC_BYTES] += allocs * bytes;
        sums->counts[BINADEI_COUNT_FREES] += frees;
        sums->counts[BINADEI_COUNT_FREE_BYTES] += frees * bytes;
        sums->counts[BINADEI_COUNT_REQUESTED_BYTES] +=
            binadei_count_read(&magazine->requested_bytes);
        cached_bytes += binadei_magazine_count(magazine) * bytes;
    }
    /* Below 0 where the owner went on meanwhile, or where a block that was freed
     * twice left longer than it came. */
    if (cached_bytes <= INT64_MAX)
        sums->cached_bytes += cached_bytes;
}

static void add_member(const struct binadei_member *member,
                       const struct binadei_member *own,
                       struct binadei_sums *sums)
{
    uint64_t before_bytes = sums->cached_bytes;
    sums->thread_count += member->thread != NULL;
    for (unsigned i = 0; i < BINADEI_COUNTS; i++)
        sums->counts[i] += binadei_count_read(&member->counts[i]);
    for (const struct binadei_cache *cache = member->caches; cache;
         cache = cache->next)
        add_magazines(cache, sums);
    if (member == own)
        sums->own_bytes += sums->cached_bytes - before_bytes;
    else if (!member->thread)
        sums->ended_bytes += sums->cached_bytes - before_bytes;
}

static uint64_t count_streams(struct binadei_engine *engine)
{
    uint64_t streams = 0;
    /* SN.acquire: the slots. */
    unsigned count =
        atomic_load_explicit(&engine->slot_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        /* relaxed: SN brought it. */
        const struct binadei_slot *slot =
            atomic_load_explicit(&engine->slots[i], memory_order_relaxed);
        streams +=
            slot->kind >= BINADEI_SLOT_STREAM && !binadei_slot_is_closed(slot);
    }
    return streams;
}

/* Counters are read one after another while threads go on, so the sum of a part
 * may be newer than that of its whole, by blocks that came and went between. A
 * part is never more than its whole, so no difference of the two wraps. */
static void keep_parts_within(uint64_t *counts)
{
    static const struct {
        enum binadei_count part, whole;
    } pairs[] = {
        {BINADEI_COUNT_FREES, BINADEI_COUNT_ALLOCS},
        {BINADEI_COUNT_FREE_BYTES, BINADEI_COUNT_ALLOC_BYTES},
        {BINADEI_COUNT_REQUESTED_BYTES, BINADEI_COUNT_ALLOC_BYTES},
        {BINADEI_COUNT_DEPOT_OUT_BYTES, BINADEI_COUNT_DEPOT_IN_BYTES},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (counts[pairs[i].part] > counts[pairs[i].whole])
            counts[pairs[i].part] = counts[pairs[i].whole];
    /* A miss may be taken back by another member than the one that had it. */
    if (counts[BINADEI_COUNT_MISSES] > INT64_MAX)
        counts[BINADEI_COUNT_MISSES] = 0;
}

void binadei_engine_sums(struct binadei_engine *engine,
                         const struct binadei_member *own,
                         struct binadei_sums *out)
{
    memset(out, 0, sizeof(*out));
    binadei_registry_lock();
    memcpy(out->counts, engine->gone, sizeof(out->counts));
    for (struct binadei_member *member = engine->members; member;
         member = member->of_pool)
        add_member(member, own, out);
    binadei_registry_unlock();
    pthread_mutex_lock(&engine->slots_lock);
    out->stream_count = count_streams(engine);
    pthread_mutex_unlock(&engine->slots_lock);
    keep_parts_within(out->counts);
    out->depot_bytes = out->counts[BINADEI_COUNT_DEPOT_IN_BYTES] -
                       out->counts[BINADEI_COUNT_DEPOT_OUT_BYTES];
    out->cached_bytes += out->depot_bytes;
    out->retiring_bytes = binadei_epochs_bytes(engine);
}
