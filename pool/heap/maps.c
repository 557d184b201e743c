/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A stream's heap: frees into it, and its two ages, of which one is closed while
 * it waits for an event.
 */
#include <stdlib.h>

#include "pool/heap/state.h"

/* Extents that are handed on while locks are held. */
#define HANDED_AT_ONCE 8U

struct moietyi_maps *moietyi_heap_create(struct moietyi_buddy *buddy)
{
    moietyi_lock(&buddy->spare_lock);
    struct moietyi_maps *heap = buddy->retired;
    uint32_t owner = 0;
    if (heap)
        buddy->retired = heap->retired_next;
    else if (buddy->owner_end < MOIETYI_OWNERS_MAX)
        owner = buddy->owner_end++;
    moietyi_unlock(&buddy->spare_lock);
    if (heap || !owner)
        return heap;
    heap = calloc(1, sizeof(*heap));
    if (!heap)
        return NULL; /* its number is lost */
    heap->buddy = buddy;
    heap->owner = owner;
    moietyi_heap_lock_init(heap);
    return heap;
}

struct moietyi_maps *moietyi_maps_create(struct moietyi_buddy *buddy)
{
    return moietyi_heap_create(buddy);
}

/* Extents and records are the heap's own, and are found where they are. */
bool moietyi_maps_reserve(struct moietyi_maps *maps, moietyi_page first,
                          uint32_t page_count)
{
    (void)maps;
    (void)first;
    (void)page_count;
    return true;
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
            moietyi_bins_remove(&maps->bins[age], buddy->extents, id,
                                moietyi_grains_of(buddy, id));
            if (!MOIETYI_HEAP_WEAK(DESTROY))
                moietyi_spare_put(maps, id);
        }
        /* relaxed: by the lock. */
        atomic_store_explicit(&maps->grains[age], 0, memory_order_relaxed);
        moietyi_heap_unlock(maps);
    }
    moietyi_spare_leave(maps);
}

void moietyi_maps_destroy(struct moietyi_maps *maps)
{
    if (!maps)
        return;
    forget_extents(maps);
    moietyi_lock(&maps->buddy->spare_lock);
    maps->retired_next = maps->buddy->retired;
    maps->buddy->retired = maps;
    moietyi_unlock(&maps->buddy->spare_lock);
}

enum moietyi_map_give moietyi_maps_give(struct moietyi_maps *maps,
                                        moietyi_grain start, uint64_t grains)
{
    enum moietyi_map_give given = MOIETYI_MAP_TWICE;
    struct moietyi_held held = {maps, NULL, maps};
    moietyi_heap_lock(maps);
    if (!moietyi_is_free_at(&held, start.index, grains)) {
        /* Done memory joins where its lock is to be had at once. */
        if (moietyi_heap_try_lock(maps->buddy->done))
            held.done = maps->buddy->done;
        moietyi_extent_add(&held, start.index, grains, moietyi_fresh_of(maps));
        given = MOIETYI_MAP_GIVEN;
    }
    moietyi_view_unlock(&held);
    return given;
}

static uint32_t age_of(const struct moietyi_maps *maps,
                       enum moietyi_map_age age)
{
    return moietyi_fresh_of(maps) ^ (age == MOIETYI_AGEING);
}

uint64_t moietyi_maps_grains(const struct moietyi_maps *maps,
                             enum moietyi_map_age age)
{
    return maps ? moietyi_sum_of(maps, age_of(maps, age)) : 0;
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

/* What waits there for no event yet is fresh again, and behind the next one. */
uint64_t moietyi_maps_close(struct moietyi_maps *maps)
{
    const struct moietyi_held held = {maps, NULL, maps};
    uint64_t grains;
    moietyi_heap_lock(maps);
    uint32_t fresh = moietyi_fresh_of(maps);
    grains = moietyi_maps_grains(maps, MOIETYI_FRESH);
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
    const struct moietyi_held held = {to, NULL, to};
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

/* Own extents where they fit as well as what is done; of its own the caller is
 * asked again, and not gathered, where done memory has none. */
uint32_t moietyi_maps_take(struct moietyi_maps *maps,
                           const struct moietyi_take *what, bool is_gathered,
                           moietyi_grain *out)
{
    const struct moietyi_want want = {what->grains, what->alignment, false};
    const struct moietyi_view view = {maps->buddy, maps, !is_gathered};
    struct moietyi_held held = moietyi_view_lock(&view);
    struct moietyi_held own = {maps, NULL, maps};
    uint32_t taken = 0;
    moietyi_extent_id id = moietyi_heaps_find(&held, &want);
    if (id &&
        moietyi_holder_of(&held, moietyi_where_of(maps->buddy, id)) == maps)
        taken = moietyi_take_intervals(&own, id, what, out);
    moietyi_view_unlock(&held);
    return taken;
}
