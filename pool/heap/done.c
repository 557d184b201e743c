/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The heap of done memory, which is the space's own: any thread may take from it.
 */
#include "pool/heap/combine.h"

/* Extents from which one call takes intervals. */
#define EXTENTS_MOST 8U

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
    return moietyi_heap_free(buddy->done, start.index, grains);
}

uint32_t moietyi_take_intervals(const struct moietyi_held *held,
                                const struct moietyi_want *want,
                                moietyi_extent_id id, uint32_t count,
                                moietyi_grain *out)
{
    const struct moietyi_buddy *buddy = held->hand->buddy;
    uint32_t taken = 0;
    /* Those between two others need a record each. */
    if (want->alignment > 1)
        count = 1;
    for (unsigned i = 0; id && i < EXTENTS_MOST; i++) {
        uint64_t here =
            count == 1 ? 1 : moietyi_grains_of(buddy, id) / want->grains;
        if (here > count - taken)
            here = count - taken;
        uint64_t grains = here * want->grains;
        uint64_t start =
            moietyi_extent_place(buddy, id, grains, want->alignment);
        moietyi_extent_cut(held, id, start, grains);
        for (uint64_t at = 0; at < here; at++)
            out[taken++] = moietyi_grain_at(start + at * want->grains);
        id = taken < count ? moietyi_heaps_find(held, want).id : 0;
    }
    return taken;
}

struct done_call {
    struct moietyi_heap_call call;
    struct moietyi_want want;
    uint32_t count;
    uint32_t taken;
    moietyi_grain *out;
};

static void do_take_done(struct moietyi_heap_call *call,
                         struct moietyi_maps *done)
{
    struct done_call *take = (struct done_call *)call;
    const struct moietyi_held held = moietyi_held_of(done);
    take->taken = moietyi_take_intervals(
        &held, &take->want, moietyi_heaps_find(&held, &take->want).id,
        take->count, take->out);
}

uint32_t moietyi_buddy_take(struct moietyi_buddy *buddy,
                            const struct moietyi_take *what, moietyi_grain *out)
{
    struct done_call take = {.call.run = do_take_done,
                             .want = {what->grains, what->alignment, 0, false},
                             .count = what->count,
                             .out = out};
    moietyi_heap_do(buddy->done, &take.call);
    return take.taken;
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
