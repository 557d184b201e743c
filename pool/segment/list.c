/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The list of segments, the look-up beside it, and the grower's turn. A pool
 * has thousands of handles, so a growth must not look at each: tables say which
 * pages are taken, and by which segment. A page is taken if a listed segment
 * has it, or if a handle is still mapped there.
 */
#include "pool/base/failure.h"
#include "pool/base/table.h"
#include "pool/segment/state.h"

/* --- which pages are taken --- */

#define WORD_PAGES 64U

static size_t table_bytes(const struct moietyi_segments *segments)
{
    return segments->page_capacity * sizeof(void *);
}

static size_t taken_bytes(const struct moietyi_segments *segments)
{
    return (segments->page_capacity / WORD_PAGES + 1) * sizeof(uint64_t);
}

moiety_status moietyi_pages_init(struct moietyi_segments *segments)
{
    segments->at_page =
        moietyi_table_reserve(table_bytes(segments) + taken_bytes(segments));
    if (!segments->at_page)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for the segments of %u pages",
                            segments->page_capacity);
    segments->taken = (uint64_t *)(segments->at_page + segments->page_capacity);
    return MOIETY_OK;
}

void moietyi_pages_fini(struct moietyi_segments *segments)
{
    moietyi_table_release(segments->at_page,
                          table_bytes(segments) + taken_bytes(segments));
}

static uint64_t bit_of(uint32_t page)
{
    return UINT64_C(1) << page % WORD_PAGES;
}

void moietyi_pages_set(struct moietyi_segments *segments,
                       const struct moietyi_segment_info *info,
                       struct moietyi_segment *listed, bool are_taken)
{
    uint32_t end = info->first.index + info->page_count;
    for (uint32_t page = info->first.index; page < end; page++) {
        uint64_t *word = &segments->taken[page / WORD_PAGES];
        *word = are_taken ? *word | bit_of(page) : *word & ~bit_of(page);
        segments->at_page[page] = listed;
    }
    if (end > segments->taken_end)
        segments->taken_end = end;
}

/* The first page from `page` on that is taken, or is not; or `taken_end`. */
static uint32_t next_page(const struct moietyi_segments *segments,
                          uint32_t page, bool is_taken)
{
    uint64_t flip = is_taken ? 0 : ~UINT64_C(0);
    while (page < segments->taken_end) {
        uint64_t rest =
            (segments->taken[page / WORD_PAGES] ^ flip) >> page % WORD_PAGES;
        if (rest) {
            page += (unsigned)__builtin_ctzll(rest);
            break;
        }
        page += WORD_PAGES - page % WORD_PAGES;
    }
    return page < segments->taken_end ? page : segments->taken_end;
}

bool moietyi_next_hole(const struct moietyi_segments *segments, uint32_t from,
                       uint32_t capacity, struct moietyi_hole *out)
{
    if (from >= capacity)
        return false;
    out->first = next_page(segments, from, false);
    out->end = next_page(segments, out->first, true);
    if (out->end == segments->taken_end || out->end > capacity)
        out->end = capacity;
    return out->first < capacity;
}

bool moietyi_page_is_taken(const struct moietyi_segments *segments,
                           uint32_t page)
{
    return segments->taken[page / WORD_PAGES] & bit_of(page);
}

struct moietyi_segment *
moietyi_segment_from(const struct moietyi_segments *segments, uint32_t from)
{
    struct moietyi_segment *found = NULL;
    uint32_t page = next_page(segments, from, true);
    while (page < segments->taken_end && !(found = segments->at_page[page]))
        page = next_page(segments, page + 1, true);
    return found && found->info.first.index < from ? found->next : found;
}

/* The last listed segment in front of the page; NULL: there is none. */
static struct moietyi_segment *
segment_before(const struct moietyi_segments *segments, uint32_t page)
{
    struct moietyi_segment *found = NULL;
    while (!found && page) {
        uint64_t word = segments->taken[(page - 1) / WORD_PAGES]
                        << (WORD_PAGES - 1 - (page - 1) % WORD_PAGES);
        page -= word ? (unsigned)__builtin_clzll(word) + 1
                     : (page - 1) % WORD_PAGES + 1;
        if (word)
            found = segments->at_page[page];
    }
    return found;
}

/* --- the grower's turn --- */

void moietyi_await_grower(struct moietyi_segments *segments)
{
    while (segments->is_growing)
        pthread_cond_wait(&segments->grown, &segments->lock);
}

void moietyi_grower_begin(struct moietyi_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    moietyi_await_grower(segments);
    segments->is_growing = true;
    pthread_mutex_unlock(&segments->lock);
}

void moietyi_let_others_grow(struct moietyi_segments *segments)
{
    segments->is_growing = false;
    pthread_cond_broadcast(&segments->grown);
}

void moietyi_grower_end(struct moietyi_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    moietyi_let_others_grow(segments);
    pthread_mutex_unlock(&segments->lock);
}

/* --- the list --- */

/* Sorts it in by first page; lock held. */
static void insert_segment(struct moietyi_segments *segments,
                           struct moietyi_segment *fresh)
{
    struct moietyi_segment *previous =
        segment_before(segments, fresh->info.first.index);
    struct moietyi_segment **at =
        previous ? &previous->next : &segments->listed;
    fresh->previous = previous;
    fresh->next = *at;
    if (fresh->next)
        fresh->next->previous = fresh;
    *at = fresh;
    segments->listed_count++;
    moietyi_pages_set(segments, &fresh->info, fresh, true);
}

static moiety_status list_segment(struct moietyi_segments *segments,
                                  struct moietyi_segment *fresh)
{
    struct moietyi_segment_info *info = &fresh->info;
    if (!moietyi_space_cover(segments->space, info->first, info->page_count))
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for the tables of a segment");
    segments->listed_bytes += info->memory_bytes;
    uint64_t reserved = moietyi_segments_reserved_bytes(segments);
    if (reserved > segments->peak_bytes)
        segments->peak_bytes = reserved;
    insert_segment(segments, fresh);
    moietyi_lookup_link(&segments->lookup, info->first, info->address,
                        info->page_count);
    return MOIETY_OK;
}

void moietyi_segment_unlist(struct moietyi_segments *segments,
                            struct moietyi_segment *segment)
{
    if (segment->next)
        segment->next->previous = segment->previous;
    *(segment->previous ? &segment->previous->next : &segments->listed) =
        segment->next;
    segments->listed_count--;
    moietyi_pages_set(segments, &segment->info, NULL, false);
    if (segment->is_empty)
        segments->empty_bytes -= segment->info.memory_bytes;
    else
        segments->listed_bytes -= segment->info.memory_bytes;
    /* All its pages were in the pool, or belong to nobody now. */
    segment->is_held = false;
    moietyi_lookup_unlink(&segments->lookup, segment->info.first,
                          segment->info.address, segment->info.page_count);
}

moiety_status moietyi_segment_publish(struct moietyi_segments *segments,
                                      struct moietyi_segment *segment,
                                      struct moietyi_heap *own)
{
    const struct moietyi_segment_info *info = &segment->info;
    moietyi_grain start =
        moietyi_grain_at((uint64_t)info->first.index * MOIETYI_PAGE_GRAINS);
    moiety_status status = list_segment(segments, segment);
    if (status != MOIETY_OK)
        return status;
    if (segment->is_held)
        return MOIETY_OK;
    /* Neither call fails: the pages are covered. */
    if (own)
        (void)moietyi_heap_give(
            own, start, (uint64_t)info->page_count * MOIETYI_PAGE_GRAINS);
    else
        (void)moietyi_space_add(segments->space, info->first, info->page_count);
    return MOIETY_OK;
}
