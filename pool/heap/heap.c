/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A stream's heap: frees into it, and its two ages, of which one is closed while
 * it waits for an event.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/heap/combine.h"
#include "pool/heap/records.h"

/* Extents that one call moves between heaps: some microseconds with a lock. */
#define HANDED_AT_ONCE 32U

/* A new number, with a hand for it. 0: there is none. */
static uint32_t number_owner(struct moietyi_space *space)
{
    uint32_t owner = 0;
    do {
        moietyi_lock(&space->owners_lock);
        uint32_t next = space->owner_end;
        moietyi_unlock(&space->owners_lock);
        if (next == MOIETYI_OWNERS_MAX || !moietyi_hand_reserve(space, next))
            return 0;
        moietyi_lock(&space->owners_lock);
        /* Others may have taken the last one of this hand's part. */
        if (space->owner_end < MOIETYI_OWNERS_MAX &&
            space->owner_end / MOIETYI_HAND_OWNERS ==
                next / MOIETYI_HAND_OWNERS)
            owner = space->owner_end++;
        moietyi_unlock(&space->owners_lock);
    } while (!owner);
    return owner;
}

struct moietyi_heap *moietyi_heap_create(struct moietyi_space *space)
{
    moietyi_lock(&space->owners_lock);
    struct moietyi_heap *heap = space->retired;
    if (heap)
        space->retired = heap->retired_next;
    moietyi_unlock(&space->owners_lock);
    if (heap)
        return heap;
    heap = aligned_alloc(alignof(struct moietyi_heap), sizeof(*heap));
    uint32_t owner = heap ? number_owner(space) : 0;
    if (!owner) {
        free(heap);
        return NULL;
    }
    memset(heap, 0, sizeof(*heap));
    heap->space = space;
    heap->owner = owner;
    return heap;
}

/* The first one found; 0: the age is empty. */
static moietyi_extent_id any_extent(const struct moietyi_heap *heap,
                                    uint32_t age)
{
    const struct moietyi_bins *bins = &heap->bins[age];
    unsigned bin = moietyi_bins_next(bins, 0);
    return bin < MOIETYI_BINS ? bins->heads[bin] : 0;
}

/* The words are cleared, or the next owner of this number would believe
 * them. */
static void forget_extents(struct moietyi_heap *heap)
{
    struct moietyi_space *space = heap->space;
    for (uint32_t age = 0; age < MOIETYI_AGES; age++) {
        moietyi_extent_id id;
        moietyi_heap_lock(heap);
        while ((id = any_extent(heap, age))) {
            moietyi_bins_remove(&heap->bins[age], space, id,
                                moietyi_bin_of(moietyi_grains_of(space, id)));
            if (!MOIETYI_HEAP_WEAK(DESTROY))
                moietyi_spare_put(heap, id);
        }
        /* relaxed: by the lock. */
        atomic_store_explicit(&heap->grains[age], 0, memory_order_relaxed);
        if (age + 1 == MOIETYI_AGES)
            moietyi_spare_give(heap, MOIETYI_CHAIN_RECORDS);
        moietyi_heap_unlock(heap);
    }
}

void moietyi_heap_destroy(struct moietyi_heap *heap)
{
    if (!heap)
        return;
    forget_extents(heap);
    moietyi_lock(&heap->space->owners_lock);
    heap->retired_next = heap->space->retired;
    heap->space->retired = heap;
    moietyi_unlock(&heap->space->owners_lock);
}

bool moietyi_heap_give(struct moietyi_heap *heap, moietyi_grain start,
                       uint64_t grains)
{
    const struct moietyi_interval block = {start.index, grains};
    return !moietyi_heap_free(heap, &block, 1, NULL);
}

uint32_t moietyi_give_some(struct moietyi_space *space,
                           struct moietyi_heap *heap,
                           const struct moietyi_interval *intervals,
                           uint32_t count, struct moietyi_records *records)
{
    return moietyi_heap_free(heap ? heap : space->done, intervals, count,
                             records);
}

static uint32_t age_of(const struct moietyi_heap *heap, enum moietyi_age age)
{
    return moietyi_fresh_of(heap) ^ (age == MOIETYI_AGEING);
}

uint64_t moietyi_heap_grains(const struct moietyi_heap *heap,
                             enum moietyi_age age)
{
    if (!heap)
        return 0;
    /* relaxed: a sum. The inbox's blocks will be fresh. */
    uint64_t waiting =
        age == MOIETYI_FRESH
            ? atomic_load_explicit(&heap->inbox_grains, memory_order_relaxed)
            : 0;
    return waiting + moietyi_sum_of(heap, age_of(heap, age));
}

bool moietyi_heap_has_any(const struct moietyi_heap *heap)
{
    /* relaxed: a sum. */
    return atomic_load_explicit(&heap->inbox_grains, memory_order_relaxed) +
           moietyi_sum_of(heap, 0) + moietyi_sum_of(heap, 1);
}

uint64_t moietyi_space_free_grains(const struct moietyi_space *space)
{
    return moietyi_heap_grains(space->done, MOIETYI_FRESH);
}

/* If the other age waits for no event yet, it becomes fresh again, and so it
 * waits for the next event as well. */
uint64_t moietyi_heap_close(struct moietyi_heap *heap)
{
    const struct moietyi_held held = moietyi_held_of(heap);
    moietyi_heap_lock(heap);
    uint32_t fresh = moietyi_fresh_of(heap);
    uint64_t grains = moietyi_heap_grains(heap, MOIETYI_FRESH);
    moietyi_extent_id id;
    while (!MOIETYI_HEAP_WEAK(CLOSE) && (id = any_extent(heap, fresh ^ 1))) {
        moietyi_extent_leave(heap, id);
        moietyi_extent_enter(&held, id, fresh);
    }
    /* relaxed: by the lock. */
    atomic_store_explicit(&heap->fresh, fresh ^ 1, memory_order_relaxed);
    moietyi_heap_unlock(heap);
    return grains;
}

/* Extents on their way from one heap to another, each with the next one
 * below. */
struct passing {
    struct moietyi_heap_call call;
    moietyi_extent_id first; /* 0: none */
};

/* Up to HANDED_AT_ONCE of an age, which `to` counts before they leave; returns their
 * grains. */
static uint64_t leave_some(struct moietyi_heap *heap, enum moietyi_age age,
                           struct moietyi_heap *to, struct passing *out)
{
    uint64_t grains = 0;
    out->first = 0;
    moietyi_heap_lock(heap);
    for (unsigned i = 0; i < HANDED_AT_ONCE; i++) {
        moietyi_extent_id id = any_extent(heap, age_of(heap, age));
        if (!id)
            break;
        uint64_t length = moietyi_grains_of(heap->space, id);
        grains += length;
        /* relaxed: a sum, which is never too small. */
        atomic_fetch_add_explicit(&to->inbox_grains, length,
                                  memory_order_relaxed);
        moietyi_extent_leave(heap, id);
        /* relaxed: combine.h orders it. */
        atomic_store_explicit(&moietyi_extent_of(heap->space, id)->below,
                              out->first, memory_order_relaxed);
        out->first = id;
    }
    moietyi_heap_unlock(heap);
    return grains;
}

static void enter_all(struct moietyi_heap_call *call, struct moietyi_heap *heap)
{
    const struct moietyi_held held = moietyi_held_of(heap);
    moietyi_extent_id id = ((struct passing *)call)->first;
    while (id) {
        /* relaxed: as above. */
        moietyi_extent_id below = atomic_load_explicit(
            &moietyi_extent_of(heap->space, id)->below, memory_order_relaxed);
        moietyi_extent_enter(&held, id, moietyi_fresh_of(heap));
        id = below;
    }
}

/* Never with both locks: threads that wait for the receiver's lock would hold
 * up all that need this one. */
uint64_t moietyi_heap_hand(struct moietyi_heap *heap, enum moietyi_age age,
                           struct moietyi_heap *to)
{
    alignas(64) struct passing passing = {.call.run = enter_all};
    uint64_t grains = 0;
    uint64_t more;
    while ((more = leave_some(heap, age, to, &passing))) {
        moietyi_heap_do(to, &passing.call);
        /* relaxed: as above. */
        atomic_fetch_sub_explicit(&to->inbox_grains, more,
                                  memory_order_relaxed);
        grains += more;
    }
    return grains;
}

uint64_t moietyi_heap_drain(struct moietyi_heap *heap, enum moietyi_age age)
{
    return moietyi_heap_hand(heap, age, heap->space->done);
}

void moietyi_records_leave(struct moietyi_space *space,
                           struct moietyi_records *records)
{
    if (!records->first)
        return;
    moietyi_heap_lock(space->done);
    while (records->first)
        moietyi_spare_put(space->done,
                          moietyi_chain_pop(space, &records->first));
    moietyi_heap_unlock(space->done);
}
