/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is free: in all; the longest run of pages; and the largest interval that a
 * take finds, which crosses from one word to another among pages alone. Exact while nobody takes or gives. Every
 * operation of this file is relaxed: who asks has seen others' work end by other
 * means, or wants a snapshot.
 */
#include "pool/buddy/state.h"

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
