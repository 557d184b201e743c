/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pool is stopped, so what is read here is nobody's to write. Thread
 * states, and their caches, may come meanwhile, empty; hence the locks.
 */
#include "pool/observe/heap/enumerate_free.h"

#include "pool/cache/magazine.h"
#include "pool/cache/registry.h"
#include "pool/stream/stream_state.h"

/* As a caller would name it. */
static binade_stream
enumerated_stream_of(const struct binadei_stream_state *stream_state)
{
    switch (stream_state->kind) {
    case BINADEI_STREAM_STATE_DONE:
        return BINADE_STREAM_DONE;
    case BINADEI_STREAM_STATE_ANY:
        return BINADE_STREAM_ANY;
    case BINADEI_STREAM_STATE_PER_THREAD:
        return BINADE_STREAM_PER_THREAD;
    case BINADEI_STREAM_STATE_STREAM:
        break;
    }
    return stream_state->stream;
}

static void add_bundle(struct binadei_enumerated_list *list,
                       const struct binadei_bundle *bundle,
                       const struct binadei_enumerated *where)
{
    struct binadei_enumerated found = *where;
    for (uint32_t i = 0; i < bundle->count; i++) {
        found.address = binadei_entry_address(bundle->entries[i]);
        binadei_enumerated_add(list, &found);
    }
}

static void add_cache(struct binadei_enumerated_list *list,
                      const struct binadei_cache *cache)
{
    struct binadei_enumerated found = {
        .stream = enumerated_stream_of(cache->stream_state),
        .kind = BINADE_HEAP_CACHED};
    if (cache->thread_state->thread)
        found.thread_id = cache->thread_state->thread_id;
    for (uint32_t i = 0; i < BINADEI_CLASSES; i++) {
        const struct binadei_magazine *magazine = &cache->magazines[i];
        uint32_t count = binadei_magazine_count(magazine);
        for (uint32_t j = 0; j < count; j++) {
            found.address = binadei_entry_address(magazine->entries[j]);
            binadei_enumerated_add(list, &found);
        }
    }
}

static void add_thread_states(struct binadei_engine *engine,
                              struct binadei_enumerated_list *list)
{
    binadei_registry_lock();
    for (const struct binadei_thread_state *thread_state =
             engine->thread_states;
         thread_state; thread_state = thread_state->of_pool)
        for (const struct binadei_cache *cache = thread_state->caches; cache;
             cache = cache->next)
            add_cache(list, cache);
    binadei_registry_unlock();
}

static void add_depot(struct binadei_enumerated_list *list,
                      const struct binadei_stream_state *stream_state)
{
    const struct binadei_enumerated where = {
        .stream = enumerated_stream_of(stream_state),
        .kind = BINADE_HEAP_DEPOT};
    for (uint32_t i = 0; i < BINADEI_SMALL_CLASSES; i++) {
        for (unsigned j = 0; j < BINADEI_DEPOT_PLACES; j++) {
            /* DE.acquire. A place has one bundle, whose link means nothing. */
            const struct binadei_bundle *bundle = atomic_load_explicit(
                &stream_state->depot[i][j], memory_order_acquire);
            if (bundle)
                add_bundle(list, bundle, &where);
        }
    }
}

void binadei_enumerate_free(struct binadei_engine *engine,
                            struct binadei_enumerated_list *list)
{
    add_thread_states(engine, list);
    pthread_mutex_lock(&engine->streams.stream_states_lock);
    for (unsigned i = 0; i < binadei_stream_state_count(&engine->streams); i++)
        add_depot(list, binadei_stream_state_at(&engine->streams, i));
    pthread_mutex_unlock(&engine->streams.stream_states_lock);
}

uint64_t binadei_find_waiting(const struct binadei_engine *engine,
                              binadei_grain start, binadei_grain end,
                              struct binadei_enumerated *out)
{
    for (unsigned i = 0; i < binadei_stream_state_count(&engine->streams);
         i++) {
        const struct binadei_stream_state *stream_state =
            binadei_stream_state_at(&engine->streams, i);
        uint64_t grains =
            binadei_stream_state_grains(stream_state)
                ? binadei_maps_free_from(stream_state->maps, start, end)
                : 0;
        if (!grains)
            continue;
        *out = (struct binadei_enumerated){
            .stream = enumerated_stream_of(stream_state),
            /* relaxed: the pool is stopped. */
            .since_ns = atomic_load_explicit(&stream_state->epoch.closed_ns,
                                             memory_order_relaxed),
            .kind = BINADE_HEAP_RETIRING};
        return grains;
    }
    return 0;
}
