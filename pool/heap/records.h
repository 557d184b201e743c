/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each miss and each free uses a few records: it puts them into bins and takes them out,
 * finds neighbours, and fills the hand. Inline, as each is a few instructions.
 * For the files of this folder only, which hold the locks.
 */
#ifndef MOIETY_POOL_HEAP_RECORDS_H_
#define MOIETY_POOL_HEAP_RECORDS_H_

#include "pool/heap/state.h"

/* --- bins --- */

static inline void moietyi_bins_flip(struct moietyi_bins *bins, unsigned bin)
{
    /* relaxed: by the lock. */
    atomic_store_explicit(&bins->used[bin / 64],
                          moietyi_bins_used(bins, bin / 64) ^ UINT64_C(1)
                                                                  << bin % 64,
                          memory_order_relaxed);
}

/* Into the bin of its length, and out of it. */
static inline void moietyi_bins_insert(struct moietyi_bins *bins,
                                       const struct moietyi_space *space,
                                       moietyi_extent_id id, unsigned bin)
{
    struct moietyi_extent *extent = moietyi_extent_of(space, id);
    moietyi_extent_id first = bins->heads[bin];
    extent->previous = 0;
    extent->next = first;
    if (first)
        moietyi_extent_of(space, first)->previous = id;
    else if (!MOIETYI_HEAP_WEAK(BIT))
        moietyi_bins_flip(bins, bin);
    bins->heads[bin] = id;
}

static inline void moietyi_bins_remove(struct moietyi_bins *bins,
                                       const struct moietyi_space *space,
                                       moietyi_extent_id id, unsigned bin)
{
    const struct moietyi_extent *extent = moietyi_extent_of(space, id);
    if (extent->next && !MOIETYI_HEAP_WEAK(LIST))
        moietyi_extent_of(space, extent->next)->previous = extent->previous;
    if (extent->previous) {
        moietyi_extent_of(space, extent->previous)->next = extent->next;
        return;
    }
    bins->heads[bin] = extent->next;
    if (!extent->next)
        moietyi_bins_flip(bins, bin);
}

/* --- neighbours --- */

/* The one of the locked heaps that owns this word; NULL: none does. */
static inline struct moietyi_heap *
moietyi_holder_of(const struct moietyi_held *held, uint64_t where)
{
    uint32_t owner = moietyi_where_owner(where);
    if (!moietyi_where_is_free(where))
        return NULL;
    if (held->own && (held->own->owner == owner || MOIETYI_HEAP_WEAK(HOLDER)))
        return held->own;
    return held->done && held->done->owner == owner ? held->done : NULL;
}

/* The extent of any owner that begins at `end`, and the one that ends at
 * `start`; 0: none. Exact if its heap is locked, otherwise a hint. */
static inline moietyi_extent_id
moietyi_extent_behind(const struct moietyi_space *space, uint64_t end)
{
    if (end >= moietyi_space_end(space))
        return 0;
    moietyi_extent_id id = moietyi_edge_at(space, end);
    uint64_t where = moietyi_where_of(space, id);
    return moietyi_where_is_free(where) && (moietyi_where_start(where) == end ||
                                            MOIETYI_HEAP_WEAK(JOIN_START))
               ? id
               : 0;
}

static inline moietyi_extent_id
moietyi_extent_before(const struct moietyi_space *space, uint64_t start)
{
    if (start == 0)
        return 0;
    moietyi_extent_id id = moietyi_edge_at(space, start - 1);
    uint64_t where = moietyi_where_of(space, id);
    return moietyi_where_is_free(where) &&
                   (moietyi_where_start(where) + moietyi_grains_of(space, id) ==
                        start ||
                    MOIETYI_HEAP_WEAK(JOIN_END))
               ? id
               : 0;
}

/* The rest of an extent is kept beside other free memory if it is at most so many
 * times as long as the interval. */
#define MOIETYI_LEFT_MOST 8U

/* Where in the extent an interval is cut, so that the rest touches other free
 * memory if possible. */
static inline uint64_t moietyi_extent_place(const struct moietyi_space *space,
                                            moietyi_extent_id id,
                                            uint64_t grains, uint64_t alignment)
{
    uint64_t start = moietyi_start_of(space, id);
    uint64_t end = start + moietyi_grains_of(space, id);
    if (end - start - grains <= MOIETYI_LEFT_MOST * grains &&
        moietyi_extent_before(space, start) &&
        !moietyi_extent_behind(space, end)) {
        uint64_t last = (end - grains) & ~(alignment - 1);
        if (last >= start)
            return last;
    }
    return moietyi_align_up(start, alignment);
}

/* --- the hand --- */

static inline moietyi_extent_id moietyi_spare_take(struct moietyi_heap *heap)
{
    moietyi_extent_id id = heap->spare;
    heap->spare_count--;
    /* relaxed: see extent.h. */
    heap->spare = atomic_load_explicit(
        &moietyi_extent_of(heap->space, id)->below, memory_order_relaxed);
    return id;
}

static inline void moietyi_spare_put(struct moietyi_heap *heap,
                                     moietyi_extent_id id)
{
    struct moietyi_extent *extent = moietyi_extent_of(heap->space, id);
    /* relaxed: under the lock of the owner in it. */
    if (!MOIETYI_HEAP_WEAK(PUT))
        atomic_store_explicit(&extent->where, 0, memory_order_relaxed);
    /* relaxed: see extent.h. */
    atomic_store_explicit(&extent->below, heap->spare, memory_order_relaxed);
    heap->spare = id;
    heap->spare_count++;
}

/* A hand with so many records gives a chain back. */
#define MOIETYI_RECORDS_MOST (2 * MOIETYI_CHAIN_RECORDS)

/* Before a call that needs records. */
static inline void moietyi_spare_stock(struct moietyi_heap *heap)
{
    if (heap->spare_count < MOIETYI_RECORDS_NEEDED &&
        !MOIETYI_HEAP_WEAK(RECORDS))
        moietyi_spare_fill(heap);
}

/* After the call: some go back to the space if there are many. */
static inline void moietyi_spare_trim(struct moietyi_heap *heap)
{
    if (heap->spare_count > MOIETYI_RECORDS_MOST)
        moietyi_spare_give(heap, MOIETYI_RECORDS_MOST);
}

#endif
