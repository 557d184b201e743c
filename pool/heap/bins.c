/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/heap/state.h"

static void flip_bit(struct moietyi_bins *bins, unsigned bin)
{
    /* relaxed: by the lock. */
    atomic_store_explicit(&bins->used[bin / 64],
                          moietyi_bins_used(bins, bin / 64) ^ UINT64_C(1)
                                                                  << bin % 64,
                          memory_order_relaxed);
}

void moietyi_bins_insert(struct moietyi_bins *bins,
                         const struct moietyi_space *space,
                         moietyi_extent_id id, uint64_t grains)
{
    struct moietyi_extent *extent = moietyi_extent_of(space, id);
    unsigned bin = moietyi_bin_of(grains);
    moietyi_extent_id first = bins->heads[bin];
    extent->previous = 0;
    extent->next = first;
    if (first)
        moietyi_extent_of(space, first)->previous = id;
    else if (!MOIETYI_HEAP_WEAK(BIT))
        flip_bit(bins, bin);
    bins->heads[bin] = id;
}

void moietyi_bins_remove(struct moietyi_bins *bins,
                         const struct moietyi_space *space,
                         moietyi_extent_id id, uint64_t grains)
{
    unsigned bin = moietyi_bin_of(grains);
    const struct moietyi_extent *extent = moietyi_extent_of(space, id);
    if (extent->next && !MOIETYI_HEAP_WEAK(LIST))
        moietyi_extent_of(space, extent->next)->previous = extent->previous;
    if (extent->previous) {
        moietyi_extent_of(space, extent->previous)->next = extent->next;
        return;
    }
    bins->heads[bin] = extent->next;
    if (!extent->next)
        flip_bit(bins, bin);
}
