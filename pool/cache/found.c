/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pool is stopped, so what is read here is nobody's to write. Members, and
 * their caches, may come meanwhile, empty; hence the locks.
 */
#include "pool/cache/found.h"

#include "pool/cache/entry.h"
#include "pool/cache/epoch.h"
#include "pool/cache/magazine.h"
#include "pool/cache/registry.h"

/* As a caller would name it. */
static binade_stream stream_of(const struct binadei_slot *slot)
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
    struct binadei_found found = {.stream = stream_of(cache->slot),
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
    const struct binadei_found where = {.stream = stream_of(slot),
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
    pthread_mutex_lock(&engine->slots_lock);
    /* SN.acquire: the slots. */
    unsigned count =
        atomic_load_explicit(&engine->slot_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        /* relaxed: SN brought it. */
        const struct binadei_slot *slot =
            atomic_load_explicit(&engine->slots[i], memory_order_relaxed);
        add_depot(list, slot);
    }
    pthread_mutex_unlock(&engine->slots_lock);
}

uint64_t binadei_find_waiting(const struct binadei_engine *engine,
                              binadei_grain start, binadei_grain end,
                              struct binadei_found *out)
{
    /* SN.acquire: the slots. */
    unsigned count =
        atomic_load_explicit(&engine->slot_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        /* relaxed: SN brought it. */
        const struct binadei_slot *slot =
            atomic_load_explicit(&engine->slots[i], memory_order_relaxed);
        uint64_t grains = binadei_epoch_bytes(slot)
                              ? binadei_maps_free_from(slot->maps, start, end)
                              : 0;
        if (!grains)
            continue;
        *out = (struct binadei_found){
            .stream = stream_of(slot),
            /* relaxed: the pool is stopped. */
            .since_ns = atomic_load_explicit(&slot->epoch.closed_ns,
                                             memory_order_relaxed),
            .kind = BINADE_HEAP_RETIRING};
        return grains;
    }
    return 0;
}
