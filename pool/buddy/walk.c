/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is free: in all; from a grain on, or in front of one; the longest run of
 * pages; and the largest interval that a take finds, which crosses from one word
 * to another among pages alone. Exact while nobody takes or gives. Every
 * operation of this file is relaxed: who asks has seen others' work end by other
 * means, or wants a snapshot.
 */
#include "pool/buddy/map_state.h"

static uint64_t free_in_chunks(const struct binadei_buddy *buddy,
                               binadei_page page)
{
    uint64_t grains = 0;
    uint64_t chunks = binadei_load_relaxed(
        &buddy->pages[page.index].chunk_summary[BINADEI_PLANE_ANY]);
    for (; chunks; chunks &= chunks - 1) {
        binadei_chunk chunk =
            binadei_chunk_in_page(page, binadei_word_lowest(chunks));
        grains += binadei_word_count(
            binadei_load_relaxed(&buddy->chunk_words[chunk.index]));
    }
    return grains;
}

static uint64_t free_in_group(const struct binadei_buddy *buddy, uint32_t index)
{
    const struct binadei_group_state *group = &buddy->groups[index];
    uint64_t grains =
        (uint64_t)BINADEI_PAGE_GRAINS *
        binadei_word_count(binadei_load_relaxed(&group->free_pages));
    uint64_t pages =
        binadei_load_relaxed(&group->chunk_pages[BINADEI_PLANE_ANY]);
    for (; pages; pages &= pages - 1) {
        binadei_page page = binadei_lowest_page(index, pages);
        grains += (uint64_t)BINADEI_CHUNK_GRAINS *
                  binadei_word_count(
                      binadei_load_relaxed(&buddy->pages[page.index].word));
    }
    pages = binadei_load_relaxed(&group->grain_pages[BINADEI_PLANE_ANY]);
    for (; pages; pages &= pages - 1)
        grains += free_in_chunks(buddy, binadei_lowest_page(index, pages));
    return grains;
}

/* The summaries lead to all words that are not 0. */
uint64_t binadei_buddy_free_grains(const struct binadei_buddy *buddy)
{
    uint64_t grains = 0;
    uint32_t groups = binadei_page_word_limit(buddy);
    for (uint32_t i = 0; i < groups; i++)
        grains += free_in_group(buddy, i);
    return grains;
}

/* Grains that are free from `start` on within its chunk. */
static uint64_t free_in_chunk(const struct binadei_buddy *buddy,
                              binadei_grain start)
{
    unsigned bit = binadei_grain_bit(start);
    uint64_t word = binadei_load_relaxed(
        &buddy->chunk_words[binadei_chunk_of_grain(start).index]);
    uint64_t length = binadei_word_low_run(word >> bit);
    uint64_t rest = BINADEI_CHUNK_GRAINS - bit;
    return length < rest ? length : rest;
}

/* The same, where the whole page or the whole chunk may be free. `out_rest`:
 * how many would be free if the next unit began there. */
static uint64_t walk_free_at(const struct binadei_buddy *buddy,
                             binadei_grain start, uint64_t *out_rest)
{
    binadei_page page = binadei_page_of_grain(start);
    binadei_chunk chunk = binadei_chunk_of_grain(start);
    *out_rest = BINADEI_PAGE_GRAINS - start.index % BINADEI_PAGE_GRAINS;
    if (binadei_load_relaxed(&binadei_group_of(buddy, page)->free_pages) &
        binadei_page_bit(page))
        return *out_rest;
    *out_rest = BINADEI_CHUNK_GRAINS - binadei_grain_bit(start);
    if (binadei_load_relaxed(&buddy->pages[page.index].word) >>
            binadei_chunk_bit(chunk) &
        1)
        return *out_rest;
    return free_in_chunk(buddy, start);
}

uint64_t binadei_buddy_free_from(const struct binadei_buddy *buddy,
                                 binadei_grain start, binadei_grain end)
{
    uint64_t at = start.index;
    while (at < end.index) {
        uint64_t rest;
        uint64_t length = walk_free_at(buddy, binadei_grain_at(at), &rest);
        at += length;
        if (length < rest)
            break;
    }
    return (at < end.index ? at : end.index) - start.index;
}

uint64_t binadei_view_free_from(const struct binadei_view *view,
                                binadei_grain start, binadei_grain end)
{
    uint64_t at = start.index;
    uint64_t before;
    do {
        before = at;
        if (!view->is_own_only)
            at +=
                binadei_buddy_free_from(view->buddy, binadei_grain_at(at), end);
        if (view->maps)
            at += binadei_maps_free_from(view->maps, binadei_grain_at(at), end);
    } while (at != before && at < end.index);
    return at - start.index;
}

/* Units of so many grains, all of them free, in front of `end`. */
static uint64_t free_units_before(const struct binadei_view *view,
                                  uint64_t start, uint64_t end, uint64_t unit)
{
    uint64_t at = end;
    while (at - start >= unit &&
           binadei_view_free_from(view, binadei_grain_at(at - unit),
                                  binadei_grain_at(at)) == unit)
        at -= unit;
    return end - at;
}

uint64_t binadei_view_free_before(const struct binadei_view *view,
                                  binadei_grain start, binadei_grain end)
{
    static const uint64_t units[] = {BINADEI_PAGE_GRAINS, BINADEI_CHUNK_GRAINS,
                                     1};
    uint64_t at = end.index;
    for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        at -= free_units_before(view, start.index, at, units[i]);
    return end.index - at;
}

struct run {
    uint32_t first;
    uint32_t length; /* pages; 0: none */
};

/* The lowest run of at least `length` in the word whose first page is `base`;
 * failing that, the shorter one at its end, which may go on in the next word.
 * Most words of a pool in use have neither: one look says so. */
static struct run run_in_word(uint64_t bits, uint32_t base, uint32_t length)
{
    uint64_t starts =
        length <= BINADEI_WORD_BITS ? binadei_word_starts(bits, length) : 0;
    unsigned start = starts ? binadei_word_lowest(starts)
                            : BINADEI_WORD_BITS - binadei_word_high_run(bits);
    if (start == BINADEI_WORD_BITS)
        return (struct run){0, 0};
    /* What is shifted in from above is not free. */
    return (struct run){base + start, binadei_word_low_run(bits >> start)};
}

/* The first free run of at least `length` pages that starts at or after `from`;
 * its length is 0 when there is none. A snapshot: others take and give single
 * pages. */
static struct run next_run(const struct binadei_buddy *buddy, uint32_t from,
                           uint32_t length)
{
    struct run run = {0, 0};
    uint32_t words = binadei_page_word_limit(buddy);
    uint64_t mask = BINADEI_WORD_FULL << from % BINADEI_WORD_BITS;
    for (uint32_t i = from / BINADEI_WORD_BITS; i < words; i++) {
        uint32_t base = i * BINADEI_WORD_BITS;
        /* relaxed: a snapshot; the claim decides. */
        uint64_t bits =
            binadei_load_relaxed(&buddy->groups[i].free_pages) & mask;
        mask = BINADEI_WORD_FULL;
        if (run.length) {
            unsigned more = binadei_word_low_run(bits);
            run.length += more;
            if (more == BINADEI_WORD_BITS)
                continue;
            if (run.length >= length)
                return run;
            bits &= bits + 1; /* without those */
        }
        run = (struct run){0, 0};
        if (bits == 0)
            continue;
        run = run_in_word(bits, base, length);
        if (run.length >= length &&
            run.first + run.length < base + BINADEI_WORD_BITS)
            return run;
    }
    return run.length >= length ? run : (struct run){0, 0};
}

uint32_t binadei_buddy_longest_page_run(const struct binadei_buddy *buddy)
{
    uint32_t longest = 0;
    for (struct run run = next_run(buddy, 0, 1); run.length;
         run = next_run(buddy, run.first + run.length, longest + 1))
        longest = run.length;
    return longest;
}

static unsigned longest_chunks(const struct binadei_buddy *buddy)
{
    unsigned longest = 0;
    uint32_t limit = binadei_page_limit(buddy);
    for (uint32_t page = 0; page < limit; page++) {
        /* relaxed: a snapshot. */
        unsigned length = binadei_word_longest(
            binadei_load_relaxed(&buddy->pages[page].word));
        if (length > longest)
            longest = length;
    }
    return longest;
}

static unsigned longest_grains(const struct binadei_buddy *buddy)
{
    unsigned longest = 0;
    uint64_t chunks = (uint64_t)binadei_page_limit(buddy) * BINADEI_PAGE_CHUNKS;
    for (uint64_t chunk = 0; chunk < chunks; chunk++) {
        /* relaxed: a snapshot. */
        unsigned length = binadei_word_longest(
            binadei_load_relaxed(&buddy->chunk_words[chunk]));
        if (length > longest)
            longest = length;
    }
    return longest;
}

uint64_t binadei_buddy_largest_bytes(const struct binadei_buddy *buddy)
{
    uint64_t pages = binadei_buddy_longest_page_run(buddy);
    if (pages)
        return pages * BINADEI_PAGE_BYTES;
    uint64_t chunks = longest_chunks(buddy);
    return chunks ? chunks * BINADEI_CHUNK_BYTES
                  : longest_grains(buddy) * BINADEI_GRAIN_BYTES;
}
