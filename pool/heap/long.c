/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The long free intervals of a heap, one after the other, some by a hold of its
 * lock.
 */
#include "pool/heap/combine.h"

static void list_bin(const struct moietyi_heap *heap,
                     struct moietyi_long_cursor *cursor,
                     struct moietyi_interval *out, uint32_t most,
                     uint32_t *count)
{
    const struct moietyi_space *space = heap->space;
    moietyi_extent_id id = heap->bins[cursor->age].heads[cursor->bin];
    for (uint32_t i = 0; id && i < cursor->seen; i++)
        id = moietyi_extent_of(space, id)->next;
    for (; id && *count < most; id = moietyi_extent_of(space, id)->next) {
        out[(*count)++] = (struct moietyi_interval){
            moietyi_start_of(space, id), moietyi_grains_of(space, id)};
        cursor->seen++;
    }
}

uint32_t moietyi_long_list(struct moietyi_space *space,
                           struct moietyi_heap *heap,
                           struct moietyi_long_cursor *cursor,
                           struct moietyi_interval *out, uint32_t most)
{
    uint32_t count = 0;
    if (!heap)
        heap = space->done;
    moietyi_heap_lock(heap);
    while (count < most && cursor->age < MOIETYI_AGES) {
        const struct moietyi_bins *bins = &heap->bins[cursor->age];
        if (cursor->bin)
            list_bin(heap, cursor, out, most, &count);
        if (count == most)
            break;
        cursor->seen = 0;
        cursor->bin =
            moietyi_bins_last(bins, cursor->bin ? cursor->bin : MOIETYI_BINS);
        if (cursor->bin >= moietyi_bin_of(cursor->least))
            continue;
        cursor->bin = 0;
        cursor->age++;
    }
    moietyi_heap_unlock(heap);
    return count;
}
