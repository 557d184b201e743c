/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A stream's heap: frees into it, and its two ages, of which one is closed while
 * it waits for an event.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/heap/combine.h"

/* Extents that are handed on while locks are held. */
#define HANDED_AT_ONCE 8U

struct moietyi_maps *moietyi_maps_create(struct moietyi_buddy *buddy)
{
    moietyi_lock(&buddy->owners_lock);
    struct moietyi_maps *heap = buddy->retired;
    uint32_t owner = 0;
    if (heap)
        buddy->retired = heap->retired_next;
    else if (buddy->owner_end < MOIETYI_OWNERS_MAX)
        owner = buddy->owner_end++;
    moietyi_unlock(&buddy->owners_lock);
    if (heap || !owner)
        return heap;
    heap = moietyi_hand_reserve(buddy, owner)
               ? aligned_alloc(alignof(struct moietyi_maps), sizeof(*heap))
               : NULL;
    if (!heap)
        return NULL; /* its number is lost */
    memset(heap, 0, sizeof(*heap));
    heap->buddy = buddy;
    heap->owner = owner;
    return heap;
}

/* The first that is found; 0: the age is empty. */
static moietyi_extent_id any_extent(const struct moietyi_maps *maps,
                                    uint32_t age)
{
    const struct moietyi_bins *bins = &maps->bins[age];
    unsigned bin = moietyi_bins_next(bins, 0);
    return bin < MOIETYI_BINS ? bins->heads[bin] : 0;
}

/* The words go, or the next owner of this number would believe them. */
static void forget_extents(struct moietyi_maps *maps)
{
    struct moietyi_buddy *buddy = maps->buddy;
    for (uint32_t age = 0; age < MOIETYI_AGES; age++) {
        moietyi_extent_id id;
        moietyi_heap_lock(maps);
        while ((id = any_extent(maps, age))) {
            moietyi_bins_remove(&maps->bins[age], buddy, id,
                                moietyi_grains_of(buddy, id));
            if (!MOIETYI_HEAP_WEAK(DESTROY))
                moietyi_spare_put(maps, id);
        }
        /* relaxed: by the lock. */
        atomic_store_explicit(&maps->grains[age], 0, memory_order_relaxed);
        if (age + 1 == MOIETYI_AGES)
            moietyi_spare_leave(maps);
        moietyi_heap_unlock(maps);
    }
}

void moietyi_maps_destroy(struct moietyi_maps *maps)
{
    if (!maps)
        return;
    forget_extents(maps);
    moietyi_lock(&maps->buddy->owners_lock);
    maps->retired_next = maps->buddy->retired;
    maps->buddy->retired = maps;
    moietyi_unlock(&maps->buddy->owners_lock);
}

bool moietyi_maps_give(struct moietyi_maps *maps, moietyi_grain start,
                       uint64_t grains)
{
    const struct moietyi_interval block = {start.index, grains};
    return !moietyi_heap_free(maps, &block, 1, NULL);
}

uint32_t moietyi_give_some(struct moietyi_buddy *buddy,
                           struct moietyi_maps *maps,
                           const struct moietyi_interval *intervals,
                           uint32_t count, struct moietyi_records *records)
{
    return moietyi_heap_free(maps ? maps : buddy->done, intervals, count,
                             records);
}

static uint32_t age_of(const struct moietyi_maps *maps,
                       enum moietyi_map_age age)
{
    return moietyi_fresh_of(maps) ^ (age == MOIETYI_AGEING);
}

uint64_t moietyi_maps_grains(const struct moietyi_maps *maps,
                             enum moietyi_map_age age)
{
    if (!maps)
        return 0;
    /* relaxed: a sum. The inbox's blocks will be fresh. */
    uint64_t waiting =
        age == MOIETYI_FRESH
            ? atomic_load_explicit(&maps->inbox_grains, memory_order_relaxed)
            : 0;
    return waiting + moietyi_sum_of(maps, age_of(maps, age));
}

uint64_t moietyi_buddy_free_grains(const struct moietyi_buddy *buddy)
{
    return moietyi_maps_grains(buddy->done, MOIETYI_FRESH);
}

/* Hands up to HANDED_AT_ONCE on, by the locks of `held` and of `maps`. Returns
 * their grains; 0: the age is empty. */
static uint64_t hand_some(const struct moietyi_held *held,
                          struct moietyi_maps *maps, uint32_t age, uint32_t to)
{
    uint64_t grains = 0;
    for (unsigned i = 0; i < HANDED_AT_ONCE; i++) {
        moietyi_extent_id id = any_extent(maps, age);
        if (!id)
            break;
        grains += moietyi_grains_of(maps->buddy, id);
        moietyi_extent_hand(held, maps, id, to);
    }
    return grains;
}

/* The other age, if it still waits for no event, is fresh again, and so behind the
 * next event. */
uint64_t moietyi_maps_close(struct moietyi_maps *maps)
{
    const struct moietyi_held held = moietyi_held_of(maps);
    moietyi_heap_lock(maps);
    uint32_t fresh = moietyi_fresh_of(maps);
    uint64_t grains = moietyi_maps_grains(maps, MOIETYI_FRESH);
    while (!MOIETYI_HEAP_WEAK(CLOSE) &&
           hand_some(&held, maps, fresh ^ 1, fresh))
        ;
    /* relaxed: by the lock. */
    atomic_store_explicit(&maps->fresh, fresh ^ 1, memory_order_relaxed);
    moietyi_heap_unlock(maps);
    return grains;
}

uint64_t moietyi_maps_drain(struct moietyi_maps *maps, enum moietyi_map_age age)
{
    struct moietyi_maps *done = maps->buddy->done;
    const struct moietyi_held held = {NULL, done, maps};
    uint64_t grains = 0;
    uint64_t more;
    do {
        moietyi_heap_lock(maps);
        if (!MOIETYI_HEAP_WEAK(DRAIN_LOCK))
            moietyi_heap_lock(done);
        more = hand_some(&held, maps, age_of(maps, age), 0);
        if (!MOIETYI_HEAP_WEAK(DRAIN_LOCK))
            moietyi_heap_unlock(done);
        moietyi_heap_unlock(maps);
        grains += more;
    } while (more);
    return grains;
}

uint64_t moietyi_maps_hand(struct moietyi_maps *maps, enum moietyi_map_age age,
                           struct moietyi_maps *to)
{
    const struct moietyi_held held = moietyi_held_of(to);
    struct moietyi_maps *first = maps->owner > to->owner ? maps : to;
    struct moietyi_maps *second = first == maps ? to : maps;
    uint64_t grains = 0;
    uint64_t more;
    do {
        moietyi_heap_lock(first);
        if (!MOIETYI_HEAP_WEAK(HAND_LOCK))
            moietyi_heap_lock(second);
        more = hand_some(&held, maps, age_of(maps, age), moietyi_fresh_of(to));
        if (!MOIETYI_HEAP_WEAK(HAND_LOCK))
            moietyi_heap_unlock(second);
        moietyi_heap_unlock(first);
        grains += more;
    } while (more);
    return grains;
}

void moietyi_records_leave(struct moietyi_buddy *buddy,
                           struct moietyi_records *records)
{
    if (!records->first)
        return;
    moietyi_heap_lock(buddy->done);
    while (records->first)
        moietyi_spare_put(buddy->done,
                          moietyi_chain_pop(buddy, &records->first));
    moietyi_heap_unlock(buddy->done);
}
