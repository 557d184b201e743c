/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The heap of done memory, which is the space's own: any thread may take from it.
 */
#include "pool/heap/combine.h"

static struct moietyi_held lock_done(const struct moietyi_space *space)
{
    moietyi_heap_lock(space->done);
    return moietyi_held_of(space->done);
}

bool moietyi_space_add(struct moietyi_space *space, moietyi_page first,
                       uint32_t page_count)
{
    if (!moietyi_space_cover(space, first, page_count))
        return false;
    struct moietyi_held held = lock_done(space);
    moietyi_extent_add(&held, 0, (uint64_t)first.index * MOIETYI_PAGE_GRAINS,
                       (uint64_t)page_count * MOIETYI_PAGE_GRAINS, 0);
    moietyi_view_unlock(&held);
    return true;
}

bool moietyi_space_remove(struct moietyi_space *space, moietyi_page first,
                          uint32_t page_count)
{
    const struct moietyi_view view = {space, NULL, false};
    return moietyi_view_claim(
        &view, moietyi_grain_at((uint64_t)first.index * MOIETYI_PAGE_GRAINS),
        (uint64_t)page_count * MOIETYI_PAGE_GRAINS);
}

bool moietyi_space_give(struct moietyi_space *space, moietyi_grain start,
                        uint64_t grains)
{
    const struct moietyi_interval block = {start.index, grains};
    return !moietyi_heap_free(space->done, &block, 1, NULL);
}

/* Whole pages in an extent. */
static uint64_t whole_pages_of(const struct moietyi_space *space,
                               moietyi_extent_id id)
{
    uint64_t first = (moietyi_start_of(space, id) + MOIETYI_PAGE_GRAINS - 1) /
                     MOIETYI_PAGE_GRAINS;
    uint64_t end = moietyi_end_of(space, id) / MOIETYI_PAGE_GRAINS;
    return end > first ? end - first : 0;
}

/* Whether a bin may have a longer extent than `most`, which is 0 or of a higher
 * bin. Counted in whole pages it may, by one page; an extent without a whole
 * page has length 0. */
static bool may_be_longer(unsigned bin, uint64_t most, bool is_pages)
{
    if (!is_pages || (most && MOIETYI_HEAP_WEAK(LONGEST)))
        return !most;
    return bin >= moietyi_bin_of((most + 1) * MOIETYI_PAGE_GRAINS);
}

/* The longest of what the bins have, the highest of them first. */
static uint64_t longest(const struct moietyi_space *space, bool is_pages)
{
    struct moietyi_held held = lock_done(space);
    const struct moietyi_bins *bins = &space->done->bins[0];
    uint64_t most = 0;
    for (unsigned bin = moietyi_bins_last(bins, MOIETYI_BINS);
         bin && may_be_longer(bin, most, is_pages);
         bin = moietyi_bins_last(bins, bin)) {
        for (moietyi_extent_id id = bins->heads[bin]; id;
             id = moietyi_extent_of(space, id)->next) {
            uint64_t length = is_pages ? whole_pages_of(space, id)
                                       : moietyi_grains_of(space, id);
            most = length > most ? length : most;
        }
    }
    moietyi_view_unlock(&held);
    return most;
}

uint32_t moietyi_space_longest_page_run(const struct moietyi_space *space)
{
    return (uint32_t)longest(space, true);
}

uint64_t moietyi_space_largest_bytes(const struct moietyi_space *space)
{
    return longest(space, false) * MOIETYI_GRAIN_BYTES;
}
