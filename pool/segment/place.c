/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where memory goes in offset space. Fixed segments: best fit, lowest first,
 * with one page left out between neighbours; places of withdrawn segments are
 * used again. Mapped memory: behind a free run, in front of one, or between
 * two, where the fewest pages are missing.
 */
#include "pool/segment/mapped.h"

/* --- segments with a border --- */

/* A hole less its borders. */
static bool next_gap(const struct moietyi_segments *segments, uint32_t from,
                     struct moietyi_hole *hole, struct moietyi_hole *gap)
{
    if (!moietyi_next_hole(segments, from, segments->page_capacity, hole))
        return false;
    *gap = *hole;
    gap->first += gap->first != 0;
    gap->end -= gap->end != segments->page_capacity;
    if (gap->end < gap->first)
        gap->end = gap->first;
    return true;
}

uint32_t moietyi_longest_gap(const struct moietyi_segments *segments)
{
    struct moietyi_hole hole = {0, 0};
    struct moietyi_hole gap;
    uint32_t longest = 0;
    while (next_gap(segments, hole.end, &hole, &gap))
        if (gap.end - gap.first > longest)
            longest = gap.end - gap.first;
    return longest;
}

moietyi_page moietyi_best_gap(const struct moietyi_segments *segments,
                              uint32_t page_count)
{
    struct moietyi_hole hole = {0, 0};
    struct moietyi_hole best = {0, 0};
    struct moietyi_hole gap;
    while (next_gap(segments, hole.end, &hole, &gap))
        if (gap.end - gap.first >= page_count &&
            (!best.end || gap.end - gap.first < best.end - best.first))
            best = gap;
    return (moietyi_page){best.first};
}

/* --- mapped memory, where neighbours touch --- */

/* Fixed memory has a border. */
static bool is_fixed_at(const struct moietyi_segments *segments, uint32_t page)
{
    return segments->at_page[page] && segments->at_page[page]->info.is_fixed;
}

/* Whether free memory there may be a part of the run. */
static bool has_memory(const struct moietyi_segments *segments, uint32_t page)
{
    return segments->at_page[page] && !segments->at_page[page]->info.is_fixed;
}

static void keep_better(struct moietyi_place *best,
                        const struct moietyi_place *place)
{
    if (place->pages && place->pages <= place->room &&
        (!best->pages || place->pages < best->pages))
        *best = *place;
}

/* The pages [at, end) have no memory; so many grains are free on each side. */
static void consider(struct moietyi_place *best, uint32_t at, uint32_t end,
                     uint64_t before, uint64_t behind, uint64_t needed)
{
    uint64_t start_grain = moietyi_grain_of_page(at);
    uint64_t end_grain = moietyi_grain_of_page(end);
    uint32_t room = end - at;
    struct moietyi_place place = {.first = at,
                                  .pages =
                                      moietyi_pages_of_grains(needed - before),
                                  .room = room,
                                  .run_start = start_grain - before};
    place.run_end = moietyi_grain_of_page(at + place.pages);
    keep_better(best, &place);
    place.pages = moietyi_pages_of_grains(needed - behind);
    place.first = end - place.pages;
    place.room = place.pages <= room ? place.pages : 0;
    place.run_start = moietyi_grain_of_page(place.first);
    place.run_end = end_grain + behind;
    keep_better(best, &place);
    if (before + (end_grain - start_grain) + behind < needed)
        return;
    place = (struct moietyi_place){.first = at,
                                   .pages = room,
                                   .room = room,
                                   .run_start = start_grain - before,
                                   .run_end = end_grain + behind};
    keep_better(best, &place);
}

/* Up to `most` grains, less one. There may be such a run although the search
 * found none: it was not aligned, or it has just become free. */
static uint64_t less_than(uint64_t grains, uint64_t most)
{
    return grains < most ? grains : most - 1;
}

static uint64_t free_before(const struct moietyi_extension *extension,
                            uint32_t page, uint64_t needed)
{
    uint64_t end = moietyi_grain_of_page(page);
    if (!extension->view)
        return 0;
    return less_than(moietyi_view_free_before(
                         extension->view,
                         moietyi_grain_at(end > needed ? end - needed : 0),
                         moietyi_grain_at(end)),
                     needed);
}

static uint64_t free_behind(const struct moietyi_segments *segments,
                            const struct moietyi_extension *extension,
                            uint32_t page, uint64_t needed)
{
    uint64_t start = moietyi_grain_of_page(page);
    uint64_t end = moietyi_grain_of_page(segments->base_pages);
    if (!extension->view)
        return 0;
    return less_than(
        moietyi_view_free_from(
            extension->view, moietyi_grain_at(start),
            moietyi_grain_at(start + needed < end ? start + needed : end)),
        needed);
}

struct moietyi_place
moietyi_place_find(const struct moietyi_segments *segments,
                   const struct moietyi_extension *extension)
{
    struct moietyi_place best = {0};
    struct moietyi_hole hole = {0, 0};
    uint64_t needed = moietyi_needed_grains(extension);
    while (moietyi_next_hole(segments, hole.end, segments->base_pages, &hole)) {
        uint32_t first = hole.first;
        uint32_t end = hole.end;
        bool is_last = end == segments->base_pages;
        uint64_t before = 0;
        uint64_t behind = 0;
        if (first && has_memory(segments, first - 1))
            before = free_before(extension, first, needed);
        if (!is_last && has_memory(segments, end))
            behind = free_behind(segments, extension, end, needed);
        first += first && is_fixed_at(segments, first - 1);
        end -= !is_last && is_fixed_at(segments, end);
        if (first < end)
            consider(&best, first, end, before, behind, needed);
    }
    return best;
}
