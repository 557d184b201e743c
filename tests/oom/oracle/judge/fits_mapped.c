/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Whether a request fits into mapped memory: a walk over the places in the order of
 * their addresses. A hole at the end of a place goes on in the gap behind it, as far as
 * there is memory for that.
 */
#include <stdlib.h>

#include "tests/oom/oracle/judge/fits.h"

#define NO_END UINT64_MAX

/* A segment that has a range, or addresses that are taken. */
struct place {
    uint64_t begin;
    uint64_t end;
    bool has_holes;
    bool is_pinned; /* it is fixed, or one of its ranges is not usable */
    uint64_t first; /* its ranges are those from here on */
    uint64_t range_count;
};

struct walk {
    const struct fits_case *of;
    struct fits_answer *answer;
    uint64_t rest_bytes; /* that may be at any place */
    uint64_t end;        /* of what was passed */
    uint64_t hole_bytes; /* that end there */
};

static uint64_t in_units(uint64_t bytes)
{
    return (bytes + FITS_UNIT_BYTES - 1) / FITS_UNIT_BYTES * FITS_UNIT_BYTES;
}

static uint64_t less(uint64_t left, uint64_t right)
{
    return left > right ? left - right : 0;
}

static int by_begin(const void *left, const void *right)
{
    const struct place *a = left;
    const struct place *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return 0;
}

static size_t add_segments(const struct fits_case *of, struct place *places)
{
    size_t count = 0;
    for (size_t i = 0; i < of->range_count; i++) {
        const struct fits_range *range = &of->ranges[i];
        const struct fits_segment *segment = &of->segments[range->segment];
        if (i == 0 || range[-1].segment != range->segment) {
            places[count++] = (struct place){
                .begin = segment->address,
                .end = segment->address + segment->size_bytes,
                .has_holes = !segment->is_passing,
                .first = i,
            };
        }
        places[count - 1].range_count++;
        places[count - 1].is_pinned |= !range->is_usable || segment->is_fixed;
    }
    return count;
}

static size_t add_taken(const struct fits_case *of, struct place *places)
{
    for (size_t i = 0; i < of->taken_count; i++) {
        places[i] = (struct place){
            .begin = of->taken[i].address,
            .end = of->taken[i].address + of->taken[i].size_bytes,
        };
    }
    return of->taken_count;
}

/* Returns the bytes of those that are not pinned. */
static uint64_t add_up(const struct place *places, size_t count,
                       uint64_t *out_pinned_bytes)
{
    uint64_t kept_bytes = 0;
    *out_pinned_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = places[i].end - places[i].begin;
        if (places[i].is_pinned)
            *out_pinned_bytes += bytes;
        else
            kept_bytes += bytes;
    }
    return kept_bytes;
}

static void note_hole(struct walk *walk, uint64_t bytes)
{
    if (walk->answer->hole_bytes < bytes)
        walk->answer->hole_bytes = bytes;
    walk->answer->is_fitting |= bytes >= walk->of->needed_bytes;
}

/* What may be put into the gap, behind the hole before it, in front of the hole
 * behind it, or all over it. */
static void pass_gap(struct walk *walk, uint64_t gap_bytes,
                     uint64_t behind_bytes)
{
    uint64_t needed_bytes = walk->of->needed_bytes;
    uint64_t most_bytes =
        gap_bytes < walk->rest_bytes ? gap_bytes : walk->rest_bytes;
    walk->answer->is_fitting |=
        in_units(less(needed_bytes, walk->hole_bytes)) <= most_bytes ||
        in_units(less(needed_bytes, behind_bytes)) <= most_bytes ||
        (gap_bytes <= walk->rest_bytes &&
         walk->hole_bytes + gap_bytes + behind_bytes >= needed_bytes);
}

/* The hole that the place begins with. */
static uint64_t head_bytes(const struct walk *walk, const struct place *place)
{
    if (!place->has_holes)
        return 0;
    for (size_t i = 0; i < place->range_count; i++) {
        const struct fits_range *range = &walk->of->ranges[place->first + i];
        if (!range->is_usable)
            return less(range->address, place->begin);
    }
    return place->end - place->begin;
}

static void pass_ranges(struct walk *walk, const struct place *place)
{
    uint64_t free_from = place->begin - walk->hole_bytes;
    for (size_t i = 0; i < place->range_count; i++) {
        const struct fits_range *range = &walk->of->ranges[place->first + i];
        uint64_t end = range->address + range->size_bytes;
        if (range->is_usable)
            continue;
        note_hole(walk, less(range->address, free_from));
        if (free_from < end)
            free_from = end;
    }
    walk->hole_bytes = less(place->end, free_from);
    note_hole(walk, walk->hole_bytes);
}

static void pass(struct walk *walk, const struct place *place)
{
    bool is_apart = place->begin >= walk->end;
    if (is_apart && place->begin > walk->end) {
        pass_gap(walk, place->begin - walk->end, head_bytes(walk, place));
        walk->hole_bytes = 0;
    }
    if (is_apart && place->has_holes)
        pass_ranges(walk, place);
    else
        walk->hole_bytes = 0;
    if (walk->end < place->end)
        walk->end = place->end;
}

struct fits_answer fits_mapped(const struct fits_case *of)
{
    struct fits_answer answer = {0};
    struct walk walk = {.of = of, .answer = &answer, .end = of->base};
    struct place *places =
        calloc(of->segment_count + of->taken_count + 1, sizeof(*places));
    if (!places)
        abort();
    fits_sort(of);
    size_t count = add_segments(of, places);
    uint64_t kept_bytes = add_up(places, count, &answer.pinned_bytes);
    count += add_taken(of, &places[count]);
    qsort(places, count, sizeof(*places), by_begin);
    uint64_t movable_bytes = less(of->limit_bytes, answer.pinned_bytes);
    walk.rest_bytes = less(movable_bytes, kept_bytes);
    answer.is_fitting = in_units(of->needed_bytes) <= movable_bytes;
    for (size_t i = 0; i < count; i++)
        pass(&walk, &places[i]);
    pass_gap(&walk, NO_END - walk.end, 0);
    free(places);
    return answer;
}
