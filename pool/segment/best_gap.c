/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where in offset space a segment goes: best fit, lowest first, with one page
 * left out between neighbours. What withdrawn segments leave serves others.
 */
#include "pool/segment/state.h"

struct gap {
    uint32_t first;
    uint32_t page_count;
};

/* The gap from `from` on, in front of `next`, which is NULL at the end. */
static struct gap gap_before(const struct binadei_segments *segments,
                             uint32_t from, const struct binadei_segment *next)
{
    uint32_t end = segments->page_capacity;
    if (next) /* less the border; first is 0 only where there is no gap */
        end = next->info.first.index ? next->info.first.index - 1 : 0;
    return (struct gap){from, end > from ? end - from : 0};
}

/* The first page behind a segment and its border. */
static uint32_t behind(const struct binadei_segment *segment)
{
    return segment->info.first.index + segment->info.page_count + 1;
}

uint32_t binadei_longest_gap(const struct binadei_segments *segments)
{
    const struct binadei_segment *next = segments->listed;
    struct gap gap = gap_before(segments, 0, next);
    uint32_t longest = gap.page_count;
    for (; next; next = next->next) {
        gap = gap_before(segments, behind(next), next->next);
        if (gap.page_count > longest)
            longest = gap.page_count;
    }
    return longest;
}

binadei_page binadei_best_gap(const struct binadei_segments *segments,
                              uint32_t page_count)
{
    const struct binadei_segment *next = segments->listed;
    struct gap best = gap_before(segments, 0, next);
    for (; next; next = next->next) {
        struct gap gap = gap_before(segments, behind(next), next->next);
        if (gap.page_count >= page_count &&
            (best.page_count < page_count || gap.page_count < best.page_count))
            best = gap;
    }
    return (binadei_page){best.first};
}
