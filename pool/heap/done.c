/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The heap of done memory, which is the space's own: any thread may take from it.
 */
#include "pool/heap/combine.h"

static struct moietyi_held lock_done(const struct moietyi_buddy *buddy)
{
    moietyi_heap_lock(buddy->done);
    return moietyi_held_of(buddy->done);
}

bool moietyi_buddy_add(struct moietyi_buddy *buddy, moietyi_page first,
                       uint32_t page_count)
{
    if (!moietyi_buddy_cover(buddy, first, page_count))
        return false;
    struct moietyi_held held = lock_done(buddy);
    moietyi_extent_add(&held, 0, (uint64_t)first.index * MOIETYI_PAGE_GRAINS,
                       (uint64_t)page_count * MOIETYI_PAGE_GRAINS, 0);
    moietyi_view_unlock(&held);
    return true;
}

bool moietyi_buddy_remove(struct moietyi_buddy *buddy, moietyi_page first,
                          uint32_t page_count)
{
    const struct moietyi_view view = {buddy, NULL, false};
    return moietyi_view_claim(
        &view, moietyi_grain_at((uint64_t)first.index * MOIETYI_PAGE_GRAINS),
        (uint64_t)page_count * MOIETYI_PAGE_GRAINS);
}

bool moietyi_buddy_give(struct moietyi_buddy *buddy, moietyi_grain start,
                        uint64_t grains)
{
    const struct moietyi_interval block = {start.index, grains};
    return !moietyi_heap_free(buddy->done, &block, 1, NULL);
}

/* Whole pages in an extent. */
static uint64_t whole_pages_of(const struct moietyi_buddy *buddy,
                               moietyi_extent_id id)
{
    uint64_t first = (moietyi_start_of(buddy, id) + MOIETYI_PAGE_GRAINS - 1) /
                     MOIETYI_PAGE_GRAINS;
    uint64_t end = moietyi_end_of(buddy, id) / MOIETYI_PAGE_GRAINS;
    return end > first ? end - first : 0;
}

/* Whether a lower bin may have a longer one than `most`, which is 0 or of a higher
 * bin. By whole pages it may, by one; one without a whole page is none. */
static bool may_be_longer(unsigned bin, uint64_t most, bool is_pages)
{
    if (!is_pages || (most && MOIETYI_HEAP_WEAK(LONGEST)))
        return !most;
    return bin >= moietyi_bin_of((most + 1) * MOIETYI_PAGE_GRAINS);
}

/* The longest of what the bins have, the highest of them first. */
static uint64_t longest(const struct moietyi_buddy *buddy, bool is_pages)
{
    struct moietyi_held held = lock_done(buddy);
    const struct moietyi_bins *bins = &buddy->done->bins[0];
    uint64_t most = 0;
    for (unsigned bin = moietyi_bins_last(bins, MOIETYI_BINS);
         bin && may_be_longer(bin, most, is_pages);
         bin = moietyi_bins_last(bins, bin)) {
        for (moietyi_extent_id id = bins->heads[bin]; id;
             id = moietyi_extent_of(buddy, id)->next) {
            uint64_t length = is_pages ? whole_pages_of(buddy, id)
                                       : moietyi_grains_of(buddy, id);
            most = length > most ? length : most;
        }
    }
    moietyi_view_unlock(&held);
    return most;
}

uint32_t moietyi_buddy_longest_page_run(const struct moietyi_buddy *buddy)
{
    return (uint32_t)longest(buddy, true);
}

uint64_t moietyi_buddy_largest_bytes(const struct moietyi_buddy *buddy)
{
    return longest(buddy, false) * MOIETYI_GRAIN_BYTES;
}
