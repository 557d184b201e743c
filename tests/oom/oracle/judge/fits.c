/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/oom/oracle/judge/fits.h"

#include <stdlib.h>

static uint64_t up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

static int by_place(const void *left, const void *right)
{
    const struct fits_range *a = left;
    const struct fits_range *b = right;
    if (a->segment != b->segment)
        return a->segment < b->segment ? -1 : 1;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return 0;
}

void fits_sort(const struct fits_case *of)
{
    if (of->range_count)
        qsort(of->ranges, of->range_count, sizeof(*of->ranges), by_place);
}

static void note_hole(struct fits_answer *answer, uint64_t begin, uint64_t end)
{
    if (end > begin && end - begin > answer->hole_bytes)
        answer->hole_bytes = end - begin;
}

/* The ranges from `at` on that lie in the same segment. Returns the first that
 * does not. */
static size_t scan_segment(const struct fits_case *of, size_t at,
                           struct fits_answer *answer)
{
    size_t index = of->ranges[at].segment;
    const struct fits_segment *segment = &of->segments[index];
    uint64_t before_bytes = answer->hole_bytes;
    uint64_t free_from = segment->address;
    for (; at < of->range_count && of->ranges[at].segment == index; at++) {
        const struct fits_range *range = &of->ranges[at];
        uint64_t end = range->address + range->size_bytes;
        if (range->is_usable)
            continue;
        note_hole(answer, free_from, range->address);
        if (free_from < end)
            free_from = end;
    }
    note_hole(answer, free_from, segment->address + segment->size_bytes);
    if (segment->is_passing)
        answer->hole_bytes = before_bytes;
    answer->pinned_bytes += segment->size_bytes;
    return at;
}

struct fits_answer fits(const struct fits_case *of)
{
    struct fits_answer answer = {0};
    size_t at = 0;
    fits_sort(of);
    while (at < of->range_count)
        at = scan_segment(of, at, &answer);
    uint64_t rest_bytes = of->limit_bytes > answer.pinned_bytes
                              ? of->limit_bytes - answer.pinned_bytes
                              : 0;
    answer.is_fitting = answer.hole_bytes >= of->needed_bytes ||
                        rest_bytes >= up(of->needed_bytes, FITS_UNIT_BYTES);
    return answer;
}
