/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pool is stopped, so what is read here is nobody's to write. Members, and
 * their caches, may come meanwhile, empty; hence the locks.
 */
#include "pool/observe/heap/found.h"

#include "pool/cache/magazine.h"
#include "pool/cache/registry.h"
#include "pool/stream/slot.h"

/* As a caller would name it. */
static binade_stream found_stream_of(const struct binadei_slot *slot)
{
    switch (slot->kind) {
    case BINADEI_SLOT_DONE:
        return BINADE_STREAM_DONE;
    case BINADEI_SLOT_ANY:
        return BINADE_STREAM_ANY;
    case BINADEI_SLOT_PER_THREAD:
        return BINADE_STREAM_PER_THREAD;
    case BINADEI_SLOT_STREAM:
        break;
    }
    return slot->stream;
}

static void add_bundle(struct binadei_found_list *list,
                       const struct binadei_bundle *bundle,
                       const struct binadei_found *where)
{
    struct binadei_found found = *where;
    for (uint32_t i = 0; i < bundle->count; i++) {
        found.address = binadei_entry_address(bundle->entries[i]);
        binadei_found_add(list, &found);
    }
}

static void add_cache(struct binadei_found_list *list,
                      const struct binadei_cache *cache)
{
    struct binadei_found found = {.stream = found_stream_of(cache->slot),
                                  .kind = BINADE_HEAP_CACHED};
    if (cache->member->thread)
        found.thread_id = cache->member->thread_id;
    for (uint32_t i = 0; i < BINADEI_CLASSES; i++) {
        const struct binadei_magazine *magazine = &cache->magazines[i];
        uint32_t count = binadei_magazine_count(magazine);
        for (uint32_t j = 0; j < count; j++) {
            found.address = binadei_entry_address(magazine->entries[j]);
            binadei_found_add(list, &found);
        }
    }
}

static void add_members(struct binadei_engine *engine,
                        struct binadei_found_list *list)
{
    binadei_registry_lock();
    for (const struct binadei_member *member = engine->members; member;
         member = member->of_pool)
        for (const struct binadei_cache *cache = member->caches; cache;
             cache = cache->next)
            add_cache(list, cache);
    binadei_registry_unlock();
}

static void add_depot(struct binadei_found_list *list,
                      const struct binadei_slot *slot)
{
    const struct binadei_found where = {.stream = found_stream_of(slot),
                                        .kind = BINADE_HEAP_DEPOT};
    for (uint32_t i = 0; i < BINADEI_CLASSES; i++) {
        for (unsigned j = 0; j < BINADEI_DEPOT_PLACES; j++) {
            /* DE.acquire. A place has one bundle, whose link means nothing. */
            const struct binadei_bundle *bundle =
                atomic_load_explicit(&slot->depot[i][j], memory_order_acquire);
            if (bundle)
                add_bundle(list, bundle, &where);
        }
    }
}

void binadei_find_blocks(struct binadei_engine *engine,
                         struct binadei_found_list *list)
{
    add_members(engine, list);
    pthread_mutex_lock(&engine->streams.slots_lock);
    for (unsigned i = 0; i < binadei_slot_count(&engine->streams); i++)
        add_depot(list, binadei_slot_at(&engine->streams, i));
    pthread_mutex_unlock(&engine->streams.slots_lock);
}

uint64_t binadei_find_waiting(const struct binadei_engine *engine,
                              binadei_grain start, binadei_grain end,
                              struct binadei_found *out)
{
    for (unsigned i = 0; i < binadei_slot_count(&engine->streams); i++) {
        const struct binadei_slot *slot = binadei_slot_at(&engine->streams, i);
        uint64_t grains = binadei_slot_grains(slot)
                              ? binadei_maps_free_from(slot->maps, start, end)
                              : 0;
        if (!grains)
            continue;
        *out = (struct binadei_found){
            .stream = found_stream_of(slot),
            /* relaxed: the pool is stopped. */
            .since_ns = atomic_load_explicit(&slot->epoch.closed_ns,
                                             memory_order_relaxed),
            .kind = BINADE_HEAP_RETIRING};
        return grains;
    }
    return 0;
}
