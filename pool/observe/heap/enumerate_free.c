/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pool is stopped, so what is read here is nobody's to write. Thread
 * states, and their caches, may come meanwhile, empty; hence the locks.
 */
#include "pool/observe/heap/enumerate_free.h"

#include "pool/base/lock.h"
#include "pool/cache/magazine.h"
#include "pool/cache/registry.h"
#include "pool/stream/stream_state.h"

/* As a caller would name it. */
static moiety_stream
enumerated_stream_of(const struct moietyi_stream_state *stream_state)
{
    switch (stream_state->kind) {
    case MOIETYI_STREAM_STATE_DONE:
        return MOIETY_STREAM_DONE;
    case MOIETYI_STREAM_STATE_ANY:
        return MOIETY_STREAM_ANY;
    case MOIETYI_STREAM_STATE_PER_THREAD:
        return MOIETY_STREAM_PER_THREAD;
    case MOIETYI_STREAM_STATE_STREAM:
        break;
    }
    return stream_state->stream;
}

static void add_cache(struct moietyi_enumerated_list *list,
                      const struct moietyi_cache *cache)
{
    struct moietyi_enumerated found = {
        .stream = enumerated_stream_of(cache->stream_state),
        .kind = MOIETY_HEAP_CACHED};
    if (cache->thread_state->thread)
        found.thread_id = cache->thread_state->thread_id;
    for (uint32_t i = 0; i < MOIETYI_CLASSES; i++) {
        const struct moietyi_magazine *magazine = &cache->magazines[i];
        uint32_t count = moietyi_magazine_count(magazine);
        for (uint32_t j = 0; j < count; j++) {
            found.address = moietyi_entry_address(magazine->entries[j]);
            moietyi_enumerated_add(list, &found);
        }
    }
}

static void add_thread_states(struct moietyi_engine *engine,
                              struct moietyi_enumerated_list *list)
{
    moietyi_registry_lock();
    for (const struct moietyi_thread_state *thread_state =
             engine->thread_states;
         thread_state; thread_state = thread_state->of_pool)
        for (const struct moietyi_cache *cache = thread_state->caches; cache;
             cache = cache->next)
            add_cache(list, cache);
    moietyi_registry_unlock();
}

void moietyi_enumerate_free(struct moietyi_engine *engine,
                            struct moietyi_enumerated_list *list)
{
    add_thread_states(engine, list);
}

uint64_t moietyi_find_waiting(const struct moietyi_engine *engine,
                              moietyi_grain start, moietyi_grain end,
                              struct moietyi_enumerated *out)
{
    for (unsigned i = 0; i < moietyi_stream_state_count(&engine->streams);
         i++) {
        const struct moietyi_stream_state *stream_state =
            moietyi_stream_state_at(&engine->streams, i);
        uint64_t grains =
            moietyi_stream_state_grains(stream_state)
                ? moietyi_heap_free_from(stream_state->heap, start, end)
                : 0;
        if (!grains)
            continue;
        *out = (struct moietyi_enumerated){
            .stream = enumerated_stream_of(stream_state),
            /* relaxed: the pool is stopped. */
            .since_ns = atomic_load_explicit(&stream_state->epoch.closed_ns,
                                             memory_order_relaxed),
            .kind = MOIETY_HEAP_RETIRING};
        return grains;
    }
    return 0;
}
