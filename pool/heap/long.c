/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lists the long free intervals of a heap, some by each hold of its lock.
 */
#include "pool/heap/combine.h"

/* Where the list of a bin goes on: behind the last extent, or, if that left the
 * bin, behind as many extents as were seen. */
static moietyi_extent_id resume(const struct moietyi_heap *heap,
                                const struct moietyi_long_cursor *cursor)
{
    const struct moietyi_space *space = heap->space;
    moietyi_extent_id id = cursor->last;
    uint64_t where = moietyi_where_of(space, id);
    if (where == moietyi_where(moietyi_where_start(where), heap->owner,
                               cursor->age) &&
        moietyi_bin_of(moietyi_grains_of(space, id)) == cursor->bin)
        return moietyi_extent_of(space, id)->next;
    id = heap->bins[cursor->age].heads[cursor->bin];
    for (uint32_t i = 0; id && i < cursor->seen; i++)
        id = moietyi_extent_of(space, id)->next;
    return id;
}

static void list_bin(const struct moietyi_heap *heap,
                     struct moietyi_long_cursor *cursor)
{
    const struct moietyi_space *space = heap->space;
    for (moietyi_extent_id id = resume(heap, cursor);
         id && cursor->count < MOIETYI_LONG_AT_ONCE;
         id = moietyi_extent_of(space, id)->next) {
        cursor->list[cursor->count++] = (struct moietyi_interval){
            moietyi_start_of(space, id), moietyi_grains_of(space, id)};
        cursor->seen++;
        cursor->last = id;
    }
}

static void list_some(const struct moietyi_heap *heap,
                      struct moietyi_long_cursor *cursor)
{
    while (cursor->age < MOIETYI_AGES) {
        const struct moietyi_bins *bins = &heap->bins[cursor->age];
        if (cursor->bin)
            list_bin(heap, cursor);
        if (cursor->count == MOIETYI_LONG_AT_ONCE)
            return;
        cursor->seen = cursor->last = 0;
        cursor->bin =
            moietyi_bins_last(bins, cursor->bin ? cursor->bin : MOIETYI_BINS);
        if (cursor->bin >= moietyi_bin_of(cursor->least))
            continue;
        cursor->bin = 0;
        cursor->age++;
    }
}

const struct moietyi_interval *
moietyi_long_next(struct moietyi_long_cursor *cursor)
{
    struct moietyi_heap *heap =
        cursor->heap ? cursor->heap : cursor->space->done;
    if (cursor->at == cursor->count) {
        cursor->at = cursor->count = 0;
        moietyi_heap_lock(heap);
        list_some(heap, cursor);
        moietyi_heap_unlock(heap);
    }
    return cursor->count ? &cursor->list[cursor->at++] : NULL;
}
