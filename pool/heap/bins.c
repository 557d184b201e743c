/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/heap/bins.h"

/* Extents of one bin that a search looks at: of the bin in which some are too
 * short, and of one in which all are long enough but for the alignment. */
#define LOOKS_SAME 128U
#define LOOKS_LONGER 16U

void moietyi_bins_insert(struct moietyi_bins *bins,
                         struct moietyi_extent *extents, moietyi_extent_id id,
                         uint64_t grains)
{
    unsigned bin = moietyi_bin_of(grains);
    moietyi_extent_id first = bins->heads[bin];
    extents[id].previous = 0;
    extents[id].next = first;
    if (first)
        extents[first].previous = id;
    else if (!MOIETYI_HEAP_WEAK(BIT))
        bins->used[bin / 64] |= UINT64_C(1) << bin % 64;
    bins->heads[bin] = id;
}

void moietyi_bins_remove(struct moietyi_bins *bins,
                         struct moietyi_extent *extents, moietyi_extent_id id,
                         uint64_t grains)
{
    unsigned bin = moietyi_bin_of(grains);
    const struct moietyi_extent *extent = &extents[id];
    if (extent->next && !MOIETYI_HEAP_WEAK(LIST))
        extents[extent->next].previous = extent->previous;
    if (extent->previous) {
        extents[extent->previous].next = extent->next;
        return;
    }
    bins->heads[bin] = extent->next;
    if (!extent->next)
        bins->used[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

static bool has_room(uint64_t start, uint64_t grains,
                     const struct moietyi_want *want)
{
    uint64_t skipped =
        MOIETYI_HEAP_WEAK(ALIGNMENT) ? 0 : -start & (want->alignment - 1);
    return grains >= skipped && grains - skipped >= want->grains;
}

static moietyi_extent_id find_in_bin(const struct moietyi_bins *bins,
                                     unsigned bin,
                                     const struct moietyi_extent *extents,
                                     const struct moietyi_want *want,
                                     unsigned looks)
{
    moietyi_extent_id best = 0;
    uint64_t best_grains = UINT64_MAX;
    uint64_t best_start = 0;
    for (moietyi_extent_id id = bins->heads[bin];
         id && (looks || want->is_thorough); id = extents[id].next) {
        /* relaxed: by the lock, here and below. */
        uint64_t grains =
            atomic_load_explicit(&extents[id].grains, memory_order_relaxed);
        uint64_t start = moietyi_where_start(
            atomic_load_explicit(&extents[id].where, memory_order_relaxed));
        looks -= looks != 0;
        if (!has_room(start, grains, want) ||
            (grains > best_grains && !MOIETYI_HEAP_WEAK(BEST)) ||
            (grains == best_grains && start > best_start))
            continue;
        best = id;
        best_grains = grains;
        best_start = start;
    }
    return best;
}

moietyi_extent_id moietyi_bins_find(const struct moietyi_bins *bins,
                                    const struct moietyi_extent *extents,
                                    const struct moietyi_want *want)
{
    unsigned first = moietyi_bin_of(want->grains);
    for (unsigned bin = moietyi_bins_next(bins, first); bin < MOIETYI_BINS;
         bin = moietyi_bins_next(bins, bin + 1)) {
        moietyi_extent_id id = find_in_bin(
            bins, bin, extents, want, bin == first ? LOOKS_SAME : LOOKS_LONGER);
        if (id)
            return id;
    }
    return 0;
}
