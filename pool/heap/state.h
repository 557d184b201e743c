/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A heap, and the offset space that heaps share. For the files of this folder
 * only.
 */
#ifndef MOIETY_POOL_HEAP_STATE_H_
#define MOIETY_POOL_HEAP_STATE_H_

#include <pthread.h>

#include "pool/heap/bins.h"
#include "pool/heap/extent.h"
#include "pool/heap/heap.h"
#include "pool/heap/lock.h"
#include "pool/heap/space.h"

#define MOIETYI_OWNER_NOBODY 0U
#define MOIETYI_OWNER_DONE 1U

/* Long tables come in parts, one with each group of pages or of owners, because
 * addresses count as memory on some systems. A group of pages has its edges,
 * and a record for each grain. Some owners share a part of records: 128 each,
 * for their hands. */
#define MOIETYI_GROUP_ORDER 19U /* in grains: 256 MiB */
#define MOIETYI_GROUP_PAGES                                                    \
    ((UINT32_C(1) << MOIETYI_GROUP_ORDER) / MOIETYI_PAGE_GRAINS)
#define MOIETYI_PART_ORDER 16U /* in records */
#define MOIETYI_PART_RECORDS (UINT32_C(1) << MOIETYI_PART_ORDER)
#define MOIETYI_PARTS_MAX (UINT32_C(1) << (32 - MOIETYI_PART_ORDER))
#define MOIETYI_HAND_OWNERS (MOIETYI_PART_RECORDS / 128)
#define MOIETYI_HAND_PARTS (MOIETYI_OWNERS_MAX / MOIETYI_HAND_OWNERS + 1)

/* Records that one call needs at most: both sides of what it cuts. */
#define MOIETYI_RECORDS_NEEDED 4U

/* The free memory of one owner, under one lock. The holder neither calls the
 * driver nor waits. Of two heaps the higher owner's is locked first, so DONE's
 * is the last. */
struct moietyi_heap {
    struct moietyi_space *space;
    uint32_t owner;
    struct moietyi_heap *retired_next;

    /* Threads that leave something write this line; the fields that only the
     * holder writes are on others. */
    alignas(64) struct moietyi_heap_lock lock;
    /* Edge HI: what is left (release) -> the lock's holder (acquire). Calls,
     * and blocks that were freed, for the holder. See combine.h. */
    _Atomic(struct moietyi_heap_call *) left;
    _Atomic moietyi_extent_id inbox;
    /* Edge: none; relaxed. Grains in the inbox, counted before they are in it. */
    _Atomic uint64_t inbox_grains;
    /* Edge HS: callers who sleep (seq_cst) -> the thread that did their calls
     * (seq_cst), and how often all were woken since. */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t wakes;

    /* Edge: none; relaxed. The age of frees; written under the lock. */
    alignas(64) _Atomic uint32_t fresh;
    /* Edge: none; relaxed, sums by age; written under the lock. */
    _Atomic uint64_t grains[MOIETYI_AGES];
    /* Cuts since the last call of moietyi_view_forget_taken(), each of a block
     * or of several in a row; claims too. Under the lock. */
    uint64_t taken;
    /* Spare records, so that a call that splits an extent cannot fail. */
    moietyi_extent_id spare;
    uint32_t spare_count;
    struct moietyi_bins bins[MOIETYI_AGES];
};

struct moietyi_space {
    uint32_t page_capacity;
    size_t table_bytes;
    void *table;
    bool is_huge; /* tables ask for huge pages */
    /* Edge: none; relaxed. See extent.h. */
    _Atomic uint32_t *covers; /* by page */
    /* Edge: none; relaxed. Of the edges, by grain, and of the records, by
     * number. NULL: there is no part yet, or the reader knows none of its
     * pages. A part begins as zeroes, and its items say how each is read. */
    _Atomic(_Atomic uint32_t *) *groups;
    _Atomic(struct moietyi_extent *) *parts;
    struct moietyi_extent
        *extents; /* the first part; few programs need another */
    /* Edge: none; relaxed. The holder of the block writes them. */
    _Atomic uint8_t *classes;     /* by grain */
    _Atomic uint32_t *run_grains; /* by chunk */

    struct moietyi_heap *done;

    /* Edge HR: a record that is new -> those behind it. No record from here on was
     * used yet. */
    _Atomic uint32_t extent_end;
    /* Edge HR: given (release) -> taken (acquire). A list of chains of records that
     * are of no extent: see spare.c. */
    _Atomic uint64_t spare;

    pthread_mutex_t owners_lock; /* of what is below; the last of all locks */
    uint32_t part_end;
    void *hands[MOIETYI_HAND_PARTS]; /* tables of owners' parts */
    uint32_t owner_end;
    struct moietyi_heap *retired; /* numbers of retired owners are used again */
};

/* The loads and stores below are relaxed, as extent.h says. */

/* Behind the first part; few programs get here. */
static inline struct moietyi_extent *
moietyi_part_of(const struct moietyi_space *space, moietyi_extent_id id)
{
    return atomic_load_explicit(&space->parts[id >> MOIETYI_PART_ORDER],
                                memory_order_relaxed);
}

static inline struct moietyi_extent *
moietyi_extent_of(const struct moietyi_space *space, moietyi_extent_id id)
{
    return id < MOIETYI_PART_RECORDS
               ? &space->extents[id]
               : &moietyi_part_of(space, id)[id % MOIETYI_PART_RECORDS];
}

static inline uint64_t moietyi_where_of(const struct moietyi_space *space,
                                        moietyi_extent_id id)
{
    if (id >= MOIETYI_PART_RECORDS && !moietyi_part_of(space, id))
        return 0;
    return atomic_load_explicit(&moietyi_extent_of(space, id)->where,
                                memory_order_relaxed);
}

static inline uint64_t moietyi_grains_of(const struct moietyi_space *space,
                                         moietyi_extent_id id)
{
    return atomic_load_explicit(&moietyi_extent_of(space, id)->grains,
                                memory_order_relaxed);
}

static inline uint64_t moietyi_start_of(const struct moietyi_space *space,
                                        moietyi_extent_id id)
{
    return moietyi_where_start(moietyi_where_of(space, id));
}

static inline uint64_t moietyi_end_of(const struct moietyi_space *space,
                                      moietyi_extent_id id)
{
    return moietyi_start_of(space, id) + moietyi_grains_of(space, id);
}

static inline uint64_t moietyi_align_up(uint64_t grain, uint64_t alignment)
{
    return (grain + alignment - 1) & ~(alignment - 1);
}

static inline uint64_t moietyi_space_end(const struct moietyi_space *space)
{
    return (uint64_t)space->page_capacity * MOIETYI_PAGE_GRAINS;
}

/* NULL: of no group that the thread knows. */
static inline _Atomic uint32_t *
moietyi_edge_of(const struct moietyi_space *space, uint64_t grain)
{
    _Atomic uint32_t *edges = atomic_load_explicit(
        &space->groups[grain >> MOIETYI_GROUP_ORDER], memory_order_relaxed);
    return edges ? &edges[grain & ((1U << MOIETYI_GROUP_ORDER) - 1)] : NULL;
}

static inline moietyi_extent_id
moietyi_edge_at(const struct moietyi_space *space, uint64_t grain)
{
    const _Atomic uint32_t *edge = moietyi_edge_of(space, grain);
    /* relaxed: see extent.h. */
    return edge ? atomic_load_explicit(edge, memory_order_relaxed) : 0;
}

static inline moietyi_extent_id
moietyi_cover_of(const struct moietyi_space *space, uint64_t page)
{
    return atomic_load_explicit(&space->covers[page], memory_order_relaxed);
}

static inline uint64_t moietyi_sum_of(const struct moietyi_heap *heap,
                                      uint32_t age)
{
    return atomic_load_explicit(&heap->grains[age], memory_order_relaxed);
}

static inline uint32_t moietyi_fresh_of(const struct moietyi_heap *heap)
{
    return atomic_load_explicit(&heap->fresh, memory_order_relaxed);
}

/* combine.c: the lock of a heap. Its hand has records enough for one call, and
 * the inbox was emptied. */
void moietyi_heap_lock(struct moietyi_heap *heap);
/* False: another thread has it. */
bool moietyi_heap_try_lock(struct moietyi_heap *heap);
/* Does what others left first, and looks again after it opened the lock:
 * nothing is left, or another thread has the lock. */
void moietyi_heap_unlock(struct moietyi_heap *heap);
/* Frees blocks, at least one, into the heap, as fresh. If another thread has
 * the lock, the blocks go into the inbox with the caller's records, and the
 * call does not wait; without records it waits for the lock. Returns how many
 * were seen to be free already; they stay as they are. */
uint32_t moietyi_heap_free(struct moietyi_heap *heap,
                           const struct moietyi_interval *blocks,
                           uint32_t count, struct moietyi_records *records);

/* tables.c: of the space. False: no host memory. */
bool moietyi_tables_reserve(struct moietyi_space *space);
void moietyi_tables_release(const struct moietyi_space *space);
/* Before an owner with this number has a hand. False: no host memory. */
bool moietyi_hand_reserve(struct moietyi_space *space, uint32_t owner);

/* spare.c: records of no extent go from hand to hand in chains of so many, each
 * with the next one below. */
#define MOIETYI_CHAIN_RECORDS 32U
/* The first of a chain. */
moietyi_extent_id moietyi_chain_take(struct moietyi_space *space);
/* The first record of a chain that is not empty; the one below becomes the
 * first. */
moietyi_extent_id moietyi_chain_pop(const struct moietyi_space *space,
                                    moietyi_extent_id *first);
/* Fills the hand of a heap whose lock is held: see records.h. */
void moietyi_spare_fill(struct moietyi_heap *heap);
/* Takes chains out of it until it has fewer than `most`. */
void moietyi_spare_give(struct moietyi_heap *heap, uint32_t most);

/* The locked heaps of a view: the stream's, or NULL, and DONE's, or NULL. */
struct moietyi_held {
    struct moietyi_heap *own;
    struct moietyi_heap *done;
    struct moietyi_heap *hand; /* one of them, whose records are used */
};

/* One heap alone. */
static inline struct moietyi_held moietyi_held_of(struct moietyi_heap *heap)
{
    bool is_done = heap->owner == MOIETYI_OWNER_DONE;
    return (struct moietyi_held){is_done ? NULL : heap, is_done ? heap : NULL,
                                 heap};
}

/* extents.c: the only way into a heap, and the only way out; with the locks. */

/* Adds memory that is in no heap to `held->own`, or to `held->done` if that is
 * NULL, with this age, and joins it with its neighbours. `id`: a spare record,
 * or 0 for one of the hand. */
void moietyi_extent_add(const struct moietyi_held *held, moietyi_extent_id id,
                        uint64_t start, uint64_t grains, uint32_t age);
/* Moves an extent from `from`, which is locked, to the same heap as above: at
 * once, or under other locks. Meanwhile its word has no owner, so no thread
 * joins or takes it, and a second free finds it free. */
void moietyi_extent_leave(struct moietyi_heap *from, moietyi_extent_id id);
void moietyi_extent_enter(const struct moietyi_held *held, moietyi_extent_id id,
                          uint32_t age);
/* Takes [start, start + grains), which is in extent `id` of a heap that is held,
 * out of it. */
void moietyi_extent_cut(const struct moietyi_held *held, moietyi_extent_id id,
                        uint64_t start, uint64_t grains);
/* The extent of a heap that is held in which the grain is; 0: none. */
moietyi_extent_id moietyi_extent_at(const struct moietyi_held *held,
                                    uint64_t grain);
/* Whether these grains are free already: an extent of any owner begins where
 * they do, or one of a locked heap ends where they do. */
bool moietyi_is_free_at(const struct moietyi_held *held, uint64_t start,
                        uint64_t grains);

/* A shorter interval is cut from the shortest extent, as it leaves little; one
 * of so many grains from the shortest run. */
#define MOIETYI_LONG_GRAINS 128U

/* An interval to find. */
struct moietyi_want {
    uint64_t grains;
    uint32_t alignment; /* in grains, a power of two */
    uint32_t owner;     /* who may take it, besides what is done */
    bool is_thorough;   /* looks at every extent, not at the first ones */
    bool is_own_only;   /* not DONE's */
};

/* Where to take it. */
struct moietyi_fit {
    moietyi_extent_id id; /* 0: nowhere */
    uint64_t run;         /* grains around it that are free for the owner */
    uint64_t start;
};

/* fit.c: the best fit in those heaps; unless the search is thorough, among the
 * extents that it looks at. Unless the search is own only, in DONE's heap too:
 * the call locks that if it may have a better one or the stream has none. */
void moietyi_view_find(struct moietyi_held *held,
                       const struct moietyi_want *want,
                       struct moietyi_fit *out);
/* Takes up to `count` such intervals out of extent `id`, and of those that
 * are found next. Returns how many. */
uint32_t moietyi_take_intervals(const struct moietyi_held *held,
                                const struct moietyi_want *want,
                                moietyi_extent_id id, uint32_t count,
                                moietyi_grain *out);

/* view.c: locks the heaps of the view. */
struct moietyi_held moietyi_view_lock(const struct moietyi_view *view);
void moietyi_view_unlock(const struct moietyi_held *held);
/* Opens DONE's lock if it was added. */
void moietyi_view_end(const struct moietyi_held *held);

#endif
