/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How an extent comes into a heap, and out of it.
 */
#include "pool/heap/records.h"

/* --- the tables --- */

static inline void set_edges(struct moietyi_space *space, moietyi_extent_id id,
                             uint64_t start, uint64_t grains)
{
    /* relaxed: extent.h says who believes them. */
    atomic_store_explicit(moietyi_edge_of(space, start), id,
                          memory_order_relaxed);
    if (!MOIETYI_HEAP_WEAK(LAST_EDGE)) /* relaxed: as above. */
        atomic_store_explicit(moietyi_edge_of(space, start + grains - 1), id,
                              memory_order_relaxed);
}

/* Of the pages whose first grain is in [start, end). */
static inline void set_covers(struct moietyi_space *space, moietyi_extent_id id,
                              uint64_t start, uint64_t end)
{
    uint64_t page = (start + MOIETYI_PAGE_GRAINS - 1) / MOIETYI_PAGE_GRAINS;
    for (; page * MOIETYI_PAGE_GRAINS < end; page++) /* relaxed: as above. */
        atomic_store_explicit(&space->covers[page], id, memory_order_relaxed);
}

static inline void count_grains(struct moietyi_heap *heap, uint32_t age,
                                uint64_t by)
{
    /* relaxed: by the lock. */
    atomic_store_explicit(&heap->grains[age], moietyi_sum_of(heap, age) + by,
                          memory_order_relaxed);
}

/* The record and the tables say this, but for covers. */
static inline void write_extent(const struct moietyi_heap *heap,
                                moietyi_extent_id id, uint64_t start,
                                uint64_t grains, uint32_t age)
{
    struct moietyi_space *space = heap->space;
    struct moietyi_extent *extent = moietyi_extent_of(space, id);
    /* relaxed: by the lock, both. */
    atomic_store_explicit(&extent->grains, grains, memory_order_relaxed);
    if (!MOIETYI_HEAP_WEAK(WORD)) /* relaxed: as above. */
        atomic_store_explicit(&extent->where,
                              moietyi_where(start, heap->owner, age),
                              memory_order_relaxed);
    set_edges(space, id, start, grains);
}

/* An extent that is in no bin becomes this one; its covers are set. */
static inline void list_extent(struct moietyi_heap *heap, moietyi_extent_id id,
                               uint64_t start, uint64_t grains, uint32_t age)
{
    write_extent(heap, id, start, grains, age);
    moietyi_bins_insert(&heap->bins[age], heap->space, id,
                        moietyi_bin_of(grains));
    count_grains(heap, age, grains);
}

/* One that is in a bin, and had `before` grains, becomes a part of what it was. */
static inline void shorten_extent(struct moietyi_heap *heap,
                                  moietyi_extent_id id, uint64_t before,
                                  uint64_t start, uint64_t grains, uint32_t age)
{
    struct moietyi_bins *bins = &heap->bins[age];
    unsigned from = moietyi_bin_of(before);
    unsigned to = moietyi_bin_of(grains);
    write_extent(heap, id, start, grains, age);
    if (from != to) {
        moietyi_bins_remove(bins, heap->space, id, from);
        moietyi_bins_insert(bins, heap->space, id, to);
    }
    count_grains(heap, age, grains - before);
}

static inline void unlist_extent(struct moietyi_heap *heap,
                                 moietyi_extent_id id, uint64_t grains,
                                 uint32_t age)
{
    moietyi_bins_remove(&heap->bins[age], heap->space, id,
                        moietyi_bin_of(grains));
    if (!MOIETYI_HEAP_WEAK(SUM))
        count_grains(heap, age, -grains);
}

/* An end is the sum of two words, so only valid with the owner's lock. */
bool moietyi_is_free_at(const struct moietyi_held *held, uint64_t start,
                        uint64_t grains)
{
    const struct moietyi_space *space = held->hand->space;
    uint64_t first = moietyi_where_of(space, moietyi_edge_at(space, start));
    moietyi_extent_id id = moietyi_edge_at(space, start + grains - 1);
    uint64_t last = moietyi_where_of(space, id);
    if (moietyi_where_is_free(first) && moietyi_where_start(first) == start)
        return !MOIETYI_HEAP_WEAK(TWICE);
    return (moietyi_holder_of(held, last) ||
            (MOIETYI_HEAP_WEAK(TWICE_OTHERS) && moietyi_where_is_free(last))) &&
           moietyi_end_of(space, id) == start + grains;
}

/* --- into a heap --- */

/* Memory that enters a heap, and the longest extent in it, whose record
 * stays. */
struct growing {
    const struct moietyi_held *held;
    struct moietyi_heap *heap;
    uint32_t age;
    uint64_t start;
    uint64_t end;
    moietyi_extent_id kept; /* 0: none yet */
    uint64_t kept_start;
    uint64_t kept_end;
};

/* Joins only extents of the same owner and age: others become done earlier, or
 * another thread may be about to search them. */
static bool may_join(const struct growing *growing, uint64_t where)
{
    return moietyi_where_is_free(where) &&
           moietyi_where_owner(where) == growing->heap->owner &&
           (moietyi_where_age(where) == growing->age || MOIETYI_HEAP_WEAK(AGE));
}

static inline void join(struct growing *growing, moietyi_extent_id id)
{
    struct moietyi_space *space = growing->heap->space;
    uint64_t where = moietyi_where_of(space, id);
    uint64_t start = moietyi_where_start(where);
    uint64_t end = start + moietyi_grains_of(space, id);
    unlist_extent(growing->heap, id, end - start, moietyi_where_age(where));
    if (start < growing->start)
        growing->start = start;
    else
        growing->end = end;
    if (end - start <= growing->kept_end - growing->kept_start) {
        moietyi_spare_put(growing->held->hand, id);
        return;
    }
    if (growing->kept)
        moietyi_spare_put(growing->held->hand, growing->kept);
    growing->kept = id;
    growing->kept_start = start;
    growing->kept_end = MOIETYI_HEAP_WEAK(KEPT) ? growing->end : end;
}

static void join_behind(struct growing *growing)
{
    const struct moietyi_space *space = growing->heap->space;
    moietyi_extent_id id = moietyi_extent_behind(space, growing->end);
    if (may_join(growing, moietyi_where_of(space, id)))
        join(growing, id);
}

static void join_before(struct growing *growing)
{
    const struct moietyi_space *space = growing->heap->space;
    moietyi_extent_id id = moietyi_extent_before(space, growing->start);
    if (may_join(growing, moietyi_where_of(space, id)))
        join(growing, id);
}

/* Memory that is in no heap, of which `kept`, if it is one, has covers up to
 * `kept_end`. */
static void bring_in(const struct moietyi_held *held, moietyi_extent_id kept,
                     uint64_t start, uint64_t end, uint64_t kept_end,
                     uint32_t age)
{
    struct moietyi_heap *heap = held->own ? held->own : held->done;
    struct growing growing = {.held = held,
                              .heap = heap,
                              .age = age,
                              .start = start,
                              .end = end,
                              .kept = kept,
                              .kept_start = start,
                              .kept_end = kept_end};
    struct moietyi_space *space = heap->space;
    join_behind(&growing);
    join_before(&growing);
    if (!growing.kept)
        growing.kept = moietyi_spare_take(held->hand);
    /* Of the pages in front of the extent that goes on, and behind it. */
    if (!MOIETYI_HEAP_WEAK(COVERS))
        set_covers(space, growing.kept, growing.start, growing.kept_start);
    set_covers(space, growing.kept, growing.kept_end, growing.end);
    list_extent(heap, growing.kept, growing.start, growing.end - growing.start,
                age);
}

void moietyi_extent_add(const struct moietyi_held *held, moietyi_extent_id id,
                        uint64_t start, uint64_t grains, uint32_t age)
{
    bring_in(held, id, start, start + grains, start, age);
}

void moietyi_extent_leave(struct moietyi_heap *from, moietyi_extent_id id)
{
    struct moietyi_space *space = from->space;
    uint64_t where = moietyi_where_of(space, id);
    unlist_extent(from, id, moietyi_grains_of(space, id),
                  moietyi_where_age(where));
    if (!MOIETYI_HEAP_WEAK(PASSING)) {
        /* relaxed: by the lock. */
        atomic_store_explicit(
            &moietyi_extent_of(space, id)->where,
            moietyi_where(moietyi_where_start(where), MOIETYI_OWNER_NOBODY, 0),
            memory_order_relaxed);
    }
}

void moietyi_extent_enter(const struct moietyi_held *held, moietyi_extent_id id,
                          uint32_t age)
{
    const struct moietyi_space *space = held->hand->space;
    uint64_t start = moietyi_start_of(space, id);
    uint64_t end = moietyi_end_of(space, id);
    bring_in(held, id, start, end, end, age);
}

/* --- out of it --- */

/* The shorter side of a cut gets a new record; the longer side keeps the old
 * one. */
static void add_side(const struct moietyi_held *held, struct moietyi_heap *heap,
                     uint64_t start, uint64_t grains, uint32_t age)
{
    moietyi_extent_id id = moietyi_spare_take(held->hand);
    if (!MOIETYI_HEAP_WEAK(SIDE_COVERS))
        set_covers(heap->space, id, start, start + grains);
    list_extent(heap, id, start, grains, age);
}

void moietyi_extent_cut(const struct moietyi_held *held, moietyi_extent_id id,
                        uint64_t start, uint64_t grains)
{
    const struct moietyi_space *space = held->hand->space;
    uint64_t where = moietyi_where_of(space, id);
    struct moietyi_heap *heap = moietyi_holder_of(held, where);
    uint32_t age = moietyi_where_age(where);
    uint64_t first = moietyi_where_start(where);
    uint64_t last = first + moietyi_grains_of(space, id);
    uint64_t end = start + grains;
    heap->taken++;
    set_covers(heap->space, 0, start, end);
    if (start == first && end == last) {
        unlist_extent(heap, id, grains, age);
        moietyi_spare_put(held->hand, id);
        return;
    }
    bool is_front_kept = start - first >= last - end;
    uint64_t front = start - first;
    uint64_t back = last - end;
    shorten_extent(heap, id, last - first, is_front_kept ? first : end,
                   is_front_kept ? front : back, age);
    if ((is_front_kept ? back : front) && !MOIETYI_HEAP_WEAK(CUT))
        add_side(held, heap, is_front_kept ? end : first,
                 is_front_kept ? back : front, age);
}

/* --- what is where --- */

static bool covers_grain(const struct moietyi_held *held, moietyi_extent_id id,
                         uint64_t grain)
{
    const struct moietyi_space *space = held->hand->space;
    uint64_t where = moietyi_where_of(space, id);
    return moietyi_holder_of(held, where) &&
           moietyi_where_start(where) <= grain &&
           grain < moietyi_end_of(space, id);
}

moietyi_extent_id moietyi_extent_at(const struct moietyi_held *held,
                                    uint64_t grain)
{
    const struct moietyi_space *space = held->hand->space;
    uint64_t page = grain / MOIETYI_PAGE_GRAINS;
    moietyi_extent_id id = moietyi_cover_of(space, page);
    if (grain % MOIETYI_PAGE_GRAINS == 0)
        return covers_grain(held, id, grain) ? id : 0;
    id = moietyi_edge_at(space, grain);
    if (covers_grain(held, id, grain))
        return id;
    id = moietyi_cover_of(space, page);
    if (covers_grain(held, id, grain))
        return id;
    /* It begins in this page, or is none. From the last grain it goes on. */
    if ((grain + 1) % MOIETYI_PAGE_GRAINS == 0) {
        id = page + 1 < space->page_capacity ? moietyi_cover_of(space, page + 1)
                                             : 0;
        return covers_grain(held, id, grain) ? id : 0;
    }
    /* The nearest beginning in front. */
    for (uint64_t at = grain; at-- > page * MOIETYI_PAGE_GRAINS;) {
        id = moietyi_edge_at(space, at);
        if (id && moietyi_holder_of(held, moietyi_where_of(space, id)) &&
            moietyi_start_of(space, id) == at)
            return covers_grain(held, id, grain) ? id : 0;
    }
    return 0;
}
