/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where in offset space memory goes. A segment of its own: best fit, lowest first,
 * with one page left out between neighbours; what withdrawn segments leave serves
 * others. Mapped memory: behind a free run, in front of one, or between two, where
 * the fewest pages are missing.
 */
#include "pool/segment/mapped.h"

/* --- segments with a border --- */

struct gap {
    uint32_t first;
    uint32_t page_count;
};

/* The gap from `from` on, in front of `next`, which is NULL at the end. */
static struct gap gap_before(const struct moietyi_segments *segments,
                             uint32_t from, const struct moietyi_segment *next)
{
    uint32_t end = segments->page_capacity;
    if (next) /* less the border; first is 0 only where there is no gap */
        end = next->info.first.index ? next->info.first.index - 1 : 0;
    return (struct gap){from, end > from ? end - from : 0};
}

/* The first page behind a segment and its border. */
static uint32_t behind(const struct moietyi_segment *segment)
{
    return segment->info.first.index + segment->info.page_count + 1;
}

uint32_t moietyi_longest_gap(const struct moietyi_segments *segments)
{
    const struct moietyi_segment *next = segments->listed;
    struct gap gap = gap_before(segments, 0, next);
    uint32_t longest = gap.page_count;
    for (; next; next = next->next) {
        gap = gap_before(segments, behind(next), next->next);
        if (gap.page_count > longest)
            longest = gap.page_count;
    }
    return longest;
}

moietyi_page moietyi_best_gap(const struct moietyi_segments *segments,
                              uint32_t page_count)
{
    const struct moietyi_segment *next = segments->listed;
    struct gap best = gap_before(segments, 0, next);
    for (; next; next = next->next) {
        struct gap gap = gap_before(segments, behind(next), next->next);
        if (gap.page_count >= page_count &&
            (best.page_count < page_count || gap.page_count < best.page_count))
            best = gap;
    }
    return (moietyi_page){best.first};
}

/* --- mapped memory, where neighbours touch --- */

/* Pages that have memory, or may not have any yet. */
struct taken {
    uint32_t first;
    uint32_t end;
    bool has_memory;
};

/* Both lists in one order. What is fixed has a border, and may lie at a place that
 * a handle left: its addresses are others. */
struct cursor {
    const struct moietyi_segment *listed;
    const struct moietyi_segment *left;
};

static bool next_taken(struct cursor *cursor, struct taken *out)
{
    const struct moietyi_segment *next = cursor->listed;
    out->has_memory =
        !cursor->left ||
        (next && next->info.first.index < cursor->left->info.first.index);
    if (!out->has_memory)
        next = cursor->left;
    if (!next)
        return false;
    out->first = next->info.first.index;
    out->end = out->first + next->info.page_count;
    if (out->has_memory)
        cursor->listed = next->next;
    else
        cursor->left = next->next;
    if (next->info.is_fixed) {
        out->first -= out->first != 0;
        out->end++;
        out->has_memory = false;
    }
    return true;
}

static void keep_better(struct moietyi_place *best,
                        const struct moietyi_place *place)
{
    if (place->pages && place->pages <= place->room &&
        (!best->pages || place->pages < best->pages))
        *best = *place;
}

/* The pages [at, end) have no memory; on both sides so many grains are free. */
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

/* Up to `most` grains, less one: there may be such a run, for it was not found by
 * who wants another alignment, or somebody was faster. */
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
    struct cursor cursor = {segments->listed, segments->left};
    struct moietyi_place best = {0};
    struct taken last = {0};
    struct taken next;
    uint64_t needed = moietyi_needed_grains(extension);
    bool is_any;
    do {
        is_any = next_taken(&cursor, &next);
        if (!is_any)
            next = (struct taken){segments->base_pages, 0, false};
        if (next.first > last.end) {
            consider(&best, last.end, next.first,
                     last.has_memory ? free_before(extension, last.end, needed)
                                     : 0,
                     next.has_memory
                         ? free_behind(segments, extension, next.first, needed)
                         : 0,
                     needed);
        }
        if (next.end >= last.end)
            last = next;
    } while (is_any);
    return best;
}
