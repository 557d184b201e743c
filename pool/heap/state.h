/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A heap, and the offset space that heaps share. For the files of this folder
 * only. The names moietyi_maps and moietyi_buddy are those of pool/buddy's
 * interface, which this folder also implements.
 */
#ifndef MOIETY_POOL_HEAP_STATE_H_
#define MOIETY_POOL_HEAP_STATE_H_

#include <pthread.h>

#include "pool/base/lock.h"
#include "pool/buddy/buddy.h"
#include "pool/buddy/map.h"
#include "pool/heap/bins.h"
#include "pool/heap/extent.h"

#define MOIETYI_OWNER_DONE 1U

/* Extents from which one call takes intervals. */
#define MOIETYI_EXTENTS_MOST 8U
/* Records that one call needs at most: one for each extent that it cuts in the
 * middle. */
#define MOIETYI_RECORDS_NEEDED MOIETYI_EXTENTS_MOST

/* The free memory of one owner, under one lock. Nobody calls the driver or waits
 * with it; of two, the higher owner's is taken first, so DONE's is the last. */
struct moietyi_maps {
    struct moietyi_buddy *buddy;
    pthread_mutex_t lock;
    uint32_t owner;
    /* Edge: none; relaxed. The age of frees; written under the lock. */
    _Atomic uint32_t fresh;
    /* Edge: none; relaxed, sums by age; written under the lock. */
    _Atomic uint64_t grains[MOIETYI_AGES];
    /* Records of no extent, so that a call that splits one cannot fail. */
    moietyi_extent_id spare;
    uint32_t spare_count;
    struct moietyi_maps *retired_next;
    struct moietyi_bins bins[MOIETYI_AGES];
};

struct moietyi_buddy {
    uint32_t page_capacity;
    size_t table_bytes;
    void *table;
    /* Edge: none; relaxed. See extent.h. */
    _Atomic uint32_t *edges;  /* by grain */
    _Atomic uint32_t *covers; /* by page */
    struct moietyi_extent *extents;
    /* Edge: none; relaxed. The holder of the block writes them. */
    _Atomic uint8_t *classes;     /* by grain */
    _Atomic uint32_t *run_grains; /* by chunk */

    struct moietyi_maps *done;

    pthread_mutex_t spare_lock; /* of what is below; the last of all locks */
    uint32_t extent_capacity;
    uint32_t extent_end; /* no record from here on was used yet */
    moietyi_extent_id spare;
    uint32_t owner_end;
    struct moietyi_maps *retired; /* their owners' numbers are used again */
};

/* The loads and stores below are relaxed, as extent.h says. */
static inline struct moietyi_extent *
moietyi_extent_of(const struct moietyi_buddy *buddy, moietyi_extent_id id)
{
    return &buddy->extents[id];
}

static inline uint64_t moietyi_where_of(const struct moietyi_buddy *buddy,
                                        moietyi_extent_id id)
{
    return atomic_load_explicit(&buddy->extents[id].where,
                                memory_order_relaxed);
}

static inline uint64_t moietyi_start_of(const struct moietyi_buddy *buddy,
                                        moietyi_extent_id id)
{
    return moietyi_where_start(moietyi_where_of(buddy, id));
}

static inline uint64_t moietyi_grains_of(const struct moietyi_buddy *buddy,
                                         moietyi_extent_id id)
{
    return atomic_load_explicit(&buddy->extents[id].grains,
                                memory_order_relaxed);
}

static inline uint64_t moietyi_end_of(const struct moietyi_buddy *buddy,
                                      moietyi_extent_id id)
{
    return moietyi_start_of(buddy, id) + moietyi_grains_of(buddy, id);
}

static inline uint64_t moietyi_space_end(const struct moietyi_buddy *buddy)
{
    return (uint64_t)buddy->page_capacity * MOIETYI_PAGE_GRAINS;
}

static inline moietyi_extent_id
moietyi_edge_at(const struct moietyi_buddy *buddy, uint64_t grain)
{
    return atomic_load_explicit(&buddy->edges[grain], memory_order_relaxed);
}

static inline moietyi_extent_id
moietyi_cover_of(const struct moietyi_buddy *buddy, uint64_t page)
{
    return atomic_load_explicit(&buddy->covers[page], memory_order_relaxed);
}

static inline uint64_t moietyi_sum_of(const struct moietyi_maps *heap,
                                      uint32_t age)
{
    return atomic_load_explicit(&heap->grains[age], memory_order_relaxed);
}

static inline uint32_t moietyi_fresh_of(const struct moietyi_maps *heap)
{
    return atomic_load_explicit(&heap->fresh, memory_order_relaxed);
}

/* spare.c: the lock of a heap, with records enough in its hand for one call. */
void moietyi_heap_lock_init(struct moietyi_maps *heap);
void moietyi_heap_lock(struct moietyi_maps *heap);
void moietyi_heap_unlock(struct moietyi_maps *heap);
/* False: somebody has it, or there are too few records. */
bool moietyi_heap_try_lock(struct moietyi_maps *heap);
/* Of a heap whose lock is held. */
moietyi_extent_id moietyi_spare_take(struct moietyi_maps *heap);
void moietyi_spare_put(struct moietyi_maps *heap, moietyi_extent_id id);
/* All of them go back to the space. */
void moietyi_spare_leave(struct moietyi_maps *heap);

/* Both heaps that a view has, locked: the stream's, or NULL, and DONE's, or
 * NULL. */
struct moietyi_held {
    struct moietyi_maps *own;
    struct moietyi_maps *done;
    struct moietyi_maps *hand; /* one of them, whose records are used */
};

/* extents.c: the one way in, and the one way out; with the locks held. */

/* Memory that is in no heap goes to `held->own`, or where that is NULL to
 * `held->done`, with this age, and joins what it may. */
void moietyi_extent_add(const struct moietyi_held *held, uint64_t start,
                        uint64_t grains, uint32_t age);
/* The same of an extent that is in `from`, which is locked too, and leaves it. */
void moietyi_extent_hand(const struct moietyi_held *held,
                         struct moietyi_maps *from, moietyi_extent_id id,
                         uint32_t age);
/* Takes [start, start + grains), which is in extent `id` of a heap that is held,
 * out of it. */
void moietyi_extent_cut(const struct moietyi_held *held, moietyi_extent_id id,
                        uint64_t start, uint64_t grains);
/* The extent of a heap that is held in which the grain is; 0: none. */
moietyi_extent_id moietyi_extent_at(const struct moietyi_held *held,
                                    uint64_t grain);
/* Where in the extent an interval is cut, so that what is left touches other free
 * memory where it can. */
uint64_t moietyi_extent_place(const struct moietyi_buddy *buddy,
                              moietyi_extent_id id, uint64_t grains,
                              uint64_t alignment);
/* Whether the owner of this word is one of those held. */
struct moietyi_maps *moietyi_holder_of(const struct moietyi_held *held,
                                       uint64_t where);

/* maps.c: a heap with a number of its own, perhaps one that was used before. NULL:
 * no memory, or no number. */
struct moietyi_maps *moietyi_heap_create(struct moietyi_buddy *buddy);

/* done.c: whether an extent of anybody begins where these grains do, or one of a
 * heap that is held ends there, so that they are free already. Of others' extents
 * the end is not asked: it is two words, and another thread writes them. */
bool moietyi_is_free_at(const struct moietyi_held *held, uint64_t start,
                        uint64_t grains);
/* Takes up to `what->count` intervals out of extent `id` and of those that are
 * found next. Returns how many. */
uint32_t moietyi_take_intervals(const struct moietyi_held *held,
                                moietyi_extent_id id,
                                const struct moietyi_take *what,
                                moietyi_grain *out);

/* view.c: locks what the view has; DONE's where it is not `is_own_only`. */
struct moietyi_held moietyi_view_lock(const struct moietyi_view *view);
void moietyi_view_unlock(const struct moietyi_held *held);
/* The shortest extent of those heaps that has room. */
moietyi_extent_id moietyi_heaps_find(const struct moietyi_held *held,
                                     const struct moietyi_want *want);

#endif
