/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: the invariants H1 to H6 of docs/dev/invariants.md, at rest.
 */
#include "pool/heap/state.h"

static const char *check_tables(const struct moietyi_space *space,
                                moietyi_extent_id id)
{
    uint64_t start = moietyi_start_of(space, id);
    uint64_t end = moietyi_end_of(space, id);
    if (start >= end || end > moietyi_space_end(space))
        return "H1: an extent is not in the space";
    if (moietyi_edge_at(space, start) != id ||
        moietyi_edge_at(space, end - 1) != id)
        return "H3: an edge does not name its extent";
    for (uint64_t page =
             (start + MOIETYI_PAGE_GRAINS - 1) / MOIETYI_PAGE_GRAINS;
         page * MOIETYI_PAGE_GRAINS < end; page++)
        if (moietyi_cover_of(space, page) != id)
            return "H3: a page does not name the extent that covers it";
    return NULL;
}

static const char *check_neighbour(const struct moietyi_space *space,
                                   moietyi_extent_id id)
{
    uint64_t where = moietyi_where_of(space, id);
    uint64_t end = moietyi_end_of(space, id);
    if (end == moietyi_space_end(space))
        return NULL;
    uint64_t next = moietyi_where_of(space, moietyi_edge_at(space, end));
    return moietyi_where_is_free(next) && moietyi_where_start(next) == end &&
                   moietyi_where_owner(next) == moietyi_where_owner(where) &&
                   moietyi_where_age(next) == moietyi_where_age(where)
               ? "H4: neighbours of one owner and age are apart"
               : NULL;
}

static const char *check_classes(const struct moietyi_space *space,
                                 moietyi_extent_id id, moietyi_grain *out_at)
{
    uint64_t end = moietyi_end_of(space, id);
    for (uint64_t at = moietyi_start_of(space, id); at < end; at++) {
        *out_at = moietyi_grain_at(at);
        if (moietyi_space_class(space, *out_at))
            return "H6: a block starts in free memory";
    }
    return NULL;
}

static const char *check_extent(const struct moietyi_heap *heap, uint32_t age,
                                unsigned bin, moietyi_extent_id id,
                                moietyi_grain *out_at)
{
    const struct moietyi_space *space = heap->space;
    uint64_t where = moietyi_where_of(space, id);
    *out_at = moietyi_grain_at(moietyi_where_start(where));
    if (where != moietyi_where(moietyi_where_start(where), heap->owner, age))
        return "H2: a word is not of the heap and age that list it";
    if (moietyi_bin_of(moietyi_grains_of(space, id)) != bin)
        return "H5: an extent is in the bin of another length";
    const char *broken = check_tables(space, id);
    if (!broken)
        broken = check_neighbour(space, id);
    return broken ? broken : check_classes(space, id, out_at);
}

static const char *check_bin(const struct moietyi_heap *heap, uint32_t age,
                             unsigned bin, uint64_t *grains,
                             moietyi_grain *out_at)
{
    const struct moietyi_space *space = heap->space;
    moietyi_extent_id previous = 0;
    moietyi_extent_id id = heap->bins[age].heads[bin];
    if (!id != !(moietyi_bins_used(&heap->bins[age], bin / 64) >> bin % 64 & 1))
        return "H5: a bin's bit is not so";
    for (; id; previous = id, id = moietyi_extent_of(space, id)->next) {
        if (moietyi_extent_of(space, id)->previous != previous)
            return "H5: a list is broken";
        const char *broken = check_extent(heap, age, bin, id, out_at);
        if (broken)
            return broken;
        *grains += moietyi_grains_of(space, id);
    }
    return NULL;
}

static const char *check_heap(const struct moietyi_heap *heap,
                              moietyi_grain *out_at)
{
    for (uint32_t age = 0; age < MOIETYI_AGES; age++) {
        uint64_t grains = 0;
        *out_at = moietyi_grain_at(0);
        for (unsigned bin = 0; bin < MOIETYI_BINS; bin++) {
            const char *broken = check_bin(heap, age, bin, &grains, out_at);
            if (broken)
                return broken;
        }
        if (grains != moietyi_sum_of(heap, age))
            return "H5: a sum is not that of the extents";
    }
    return NULL;
}

const char *moietyi_heap_check(const struct moietyi_heap *const *heap,
                               uint32_t count, moietyi_grain *out_at)
{
    const char *broken = NULL;
    for (uint32_t i = 0; i < count && !broken; i++)
        broken = heap[i] ? check_heap(heap[i], out_at) : NULL;
    return broken;
}

const char *moietyi_space_check(const struct moietyi_space *space,
                                moietyi_grain *out_at)
{
    return check_heap(space->done, out_at);
}
