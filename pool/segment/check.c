/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of the segments, executable, by their numbers in
 * docs/dev/invariants.md.
 */
#include "pool/segment/state.h"

/* S1 and S4 of one segment and its neighbour. */
static const char *check_order(const struct moietyi_segments *segments,
                               const struct moietyi_segment *segment)
{
    const struct moietyi_segment_info *info = &segment->info;
    uint64_t end = (uint64_t)info->first.index + info->page_count;
    const struct moietyi_segment *next = segment->next;
    uint64_t border = info->is_fixed || (next && next->info.is_fixed);
    if (end > segments->page_capacity ||
        (next && next->info.first.index < end + border))
        return "S1: segments touch or leave the offset space";
    if (info->address < info->memory ||
        info->address + (uint64_t)info->page_count * MOIETYI_PAGE_BYTES >
            info->memory + info->memory_bytes)
        return "S4: a segment is larger than its memory";
    return NULL;
}

/* S2 of one segment. */
static const char *check_lookup(const struct moietyi_lookup *lookup,
                                const struct moietyi_segment_info *info,
                                moietyi_page *out_at)
{
    for (uint32_t i = 0; i < info->page_count; i++) {
        moiety_devptr address = info->address + i * MOIETYI_PAGE_BYTES;
        uint64_t page = info->first.index + i;
        moietyi_grain wanted = {page * MOIETYI_PAGE_GRAINS};
        moietyi_grain found = {0};
        out_at->index = (uint32_t)page;
        if (!moietyi_grain_of(lookup, address, &found) ||
            found.index != wanted.index ||
            moietyi_address_of(lookup, wanted) != address)
            return "S2: address and page do not lead to each other";
    }
    return NULL;
}

/* S3 and S5. Lock held. */
static const char *check_counts(const struct moietyi_segments *segments,
                                uint64_t pages, uint64_t bytes)
{
    uint64_t linked = 0;
    uint64_t unreleased_bytes = 0;
    /* relaxed, both: at rest. */
    for (uint32_t i = 0; i < segments->page_capacity; i++)
        if (atomic_load_explicit(&segments->lookup.page_addresses[i],
                                 memory_order_relaxed))
            linked++;
    const struct moietyi_segment *segment = segments->unreleased;
    for (; segment; segment = segment->next)
        unreleased_bytes += segment->info.memory_bytes;
    if (linked != pages)
        return "S3: pages without a segment have an address";
    if (bytes != segments->listed_bytes ||
        bytes + unreleased_bytes != moietyi_segments_reserved_bytes(segments))
        return "S5: reserved bytes are not those of the segments";
    return NULL;
}

/* S8 of one segment. */
static const char *check_told(const struct moietyi_segment *segment)
{
    return segment->is_told == segment->is_away
               ? "S8: who watches knows what is away, or not what is there"
               : NULL;
}

static uint64_t first_of(const struct moietyi_segment *segment)
{
    return segment->info.first.index;
}

static uint64_t end_of(const struct moietyi_segment *segment)
{
    return first_of(segment) + segment->info.page_count;
}

/* S6 of one segment, or of a place that a handle left. */
static bool has_pages(const struct moietyi_segments *segments,
                      const struct moietyi_segment *segment,
                      const struct moietyi_segment *listed)
{
    for (uint64_t page = first_of(segment); page < end_of(segment); page++)
        if (!moietyi_page_is_taken(segments, (uint32_t)page) ||
            segments->at_page[page] != listed)
            return false;
    return true;
}

/* S6 of all: no two have the same page, as there are as many. */
static bool are_as_many(const struct moietyi_segments *segments, uint64_t pages)
{
    struct moietyi_hole hole = {0, 0};
    uint64_t taken = segments->page_capacity;
    while (
        moietyi_next_hole(segments, hole.end, segments->page_capacity, &hole))
        taken -= hole.end - hole.first;
    return taken == pages;
}

/* S7 of one segment: the places that it left. */
static uint64_t count_left(const struct moietyi_segments *segments,
                           const struct moietyi_segment *segment)
{
    uint64_t count = 0;
    for (const struct moietyi_segment *at = segments->left; at; at = at->next)
        count += at->of == segment;
    return count;
}

/* S7 of a list: takes the places of its segments off the count. */
static bool check_left_of(const struct moietyi_segments *segments,
                          const struct moietyi_segment *list, uint64_t *count,
                          moietyi_page *out_at)
{
    for (const struct moietyi_segment *at = list; at; at = at->next) {
        *out_at = at->info.first;
        if (at->left_count != count_left(segments, at))
            return false;
        *count -= at->left_count;
    }
    return true;
}

/* S6 and S7. Lock held. */
static const char *check_left(const struct moietyi_segments *segments,
                              moietyi_page *out_at)
{
    uint64_t pages = 0;
    uint64_t count = 0;
    for (const struct moietyi_segment *at = segments->left; at; at = at->next) {
        *out_at = at->info.first;
        if (!has_pages(segments, at, NULL))
            return "S6: a place that a handle left is used";
        pages += at->info.page_count;
        count++;
    }
    if (!check_left_of(segments, segments->listed, &count, out_at) ||
        !check_left_of(segments, segments->unreleased, &count, out_at))
        return "S7: a handle is not mapped as often as it says";
    return count || pages != segments->left_pages
               ? "S7: places that handles left are not counted"
               : NULL;
}

/* Lock held. */
static const char *check_all(const struct moietyi_segments *segments,
                             moietyi_page *out_at)
{
    uint64_t pages = 0;
    uint64_t bytes = 0;
    uint64_t empty_bytes = 0;
    const struct moietyi_segment *segment = segments->listed;
    for (; segment; segment = segment->next) {
        *out_at = segment->info.first;
        const char *broken = check_order(segments, segment);
        if (!broken)
            broken = check_lookup(&segments->lookup, &segment->info, out_at);
        if (!broken)
            broken = check_told(segment);
        if (!broken && !has_pages(segments, segment, segment))
            broken = "S6: a segment has not all of its pages";
        if (broken)
            return broken;
        pages += segment->info.page_count;
        if (segment->is_empty)
            empty_bytes += segment->info.memory_bytes;
        else
            bytes += segment->info.memory_bytes;
    }
    if (empty_bytes != segments->empty_bytes)
        return "S5: segments without memory are not counted";
    const char *broken = check_counts(segments, pages, bytes);
    if (!broken && !are_as_many(segments, pages + segments->left_pages))
        return "S6: other pages are taken than those of segments and places";
    return broken ? broken : check_left(segments, out_at);
}

const char *moietyi_segments_check(struct moietyi_segments *segments,
                                   moietyi_page *out_at)
{
    pthread_mutex_lock(&segments->lock);
    const char *broken = check_all(segments, out_at);
    pthread_mutex_unlock(&segments->lock);
    return broken;
}
