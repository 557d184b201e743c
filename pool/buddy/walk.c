/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is free: in all; the longest run of pages; and the largest interval that a
 * take finds, which crosses from one word to another among pages alone. Exact while nobody takes or gives. Every
 * operation of this file is relaxed: who asks has seen others' work end by other
 * means, or wants a snapshot.
 */
#include "pool/buddy/state.h"

static uint64_t free_in_chunks(const struct moietyi_buddy *buddy,
                               moietyi_page page)
{
    uint64_t grains = 0;
    uint64_t chunks = moietyi_load_relaxed(
        &buddy->pages[page.index].chunk_summary[MOIETYI_PLANE_ANY]);
    for (; chunks; chunks &= chunks - 1) {
        moietyi_chunk chunk =
            moietyi_chunk_in_page(page, moietyi_word_lowest(chunks));
        grains += moietyi_word_count(
            moietyi_load_relaxed(&buddy->chunk_words[chunk.index]));
    }
    return grains;
}

static uint64_t free_in_group(const struct moietyi_buddy *buddy, uint32_t index)
{
    const struct moietyi_group_state *group = &buddy->groups[index];
    uint64_t grains =
        (uint64_t)MOIETYI_PAGE_GRAINS *
        moietyi_word_count(moietyi_load_relaxed(&group->free_pages));
    uint64_t pages =
        moietyi_load_relaxed(&group->chunk_pages[MOIETYI_PLANE_ANY]);
    for (; pages; pages &= pages - 1) {
        moietyi_page page = moietyi_lowest_page(index, pages);
        grains += (uint64_t)MOIETYI_CHUNK_GRAINS *
                  moietyi_word_count(
                      moietyi_load_relaxed(&buddy->pages[page.index].word));
    }
    pages = moietyi_load_relaxed(&group->grain_pages[MOIETYI_PLANE_ANY]);
    for (; pages; pages &= pages - 1)
        grains += free_in_chunks(buddy, moietyi_lowest_page(index, pages));
    return grains;
}

/* The summaries lead to all words that are not 0. */
uint64_t moietyi_buddy_free_grains(const struct moietyi_buddy *buddy)
{
    uint64_t grains = 0;
    uint32_t groups = moietyi_page_word_limit(buddy);
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
        length <= MOIETYI_WORD_BITS ? moietyi_word_starts(bits, length) : 0;
    unsigned start = starts ? moietyi_word_lowest(starts)
                            : MOIETYI_WORD_BITS - moietyi_word_high_run(bits);
    if (start == MOIETYI_WORD_BITS)
        return (struct run){0, 0};
    /* What is shifted in from above is not free. */
    return (struct run){base + start, moietyi_word_low_run(bits >> start)};
}

/* The first free run of at least `length` pages that starts at or after `from`;
 * its length is 0 when there is none. A snapshot: others take and give single
 * pages. */
static struct run next_run(const struct moietyi_buddy *buddy, uint32_t from,
                           uint32_t length)
{
    struct run run = {0, 0};
    uint32_t words = moietyi_page_word_limit(buddy);
    uint64_t mask = MOIETYI_WORD_FULL << from % MOIETYI_WORD_BITS;
    for (uint32_t i = from / MOIETYI_WORD_BITS; i < words; i++) {
        uint32_t base = i * MOIETYI_WORD_BITS;
        /* relaxed: a snapshot; the claim decides. */
        uint64_t bits =
            moietyi_load_relaxed(&buddy->groups[i].free_pages) & mask;
        mask = MOIETYI_WORD_FULL;
        if (run.length) {
            unsigned more = moietyi_word_low_run(bits);
            run.length += more;
            if (more == MOIETYI_WORD_BITS)
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
            run.first + run.length < base + MOIETYI_WORD_BITS)
            return run;
    }
    return run.length >= length ? run : (struct run){0, 0};
}

uint32_t moietyi_buddy_longest_page_run(const struct moietyi_buddy *buddy)
{
    uint32_t longest = 0;
    for (struct run run = next_run(buddy, 0, 1); run.length;
         run = next_run(buddy, run.first + run.length, longest + 1))
        longest = run.length;
    return longest;
}

static unsigned longest_chunks(const struct moietyi_buddy *buddy)
{
    unsigned longest = 0;
    uint32_t limit = moietyi_page_limit(buddy);
    for (uint32_t page = 0; page < limit; page++) {
        /* relaxed: a snapshot. */
        unsigned length = moietyi_word_longest(
            moietyi_load_relaxed(&buddy->pages[page].word));
        if (length > longest)
            longest = length;
    }
    return longest;
}

static unsigned longest_grains(const struct moietyi_buddy *buddy)
{
    unsigned longest = 0;
    uint64_t chunks = (uint64_t)moietyi_page_limit(buddy) * MOIETYI_PAGE_CHUNKS;
    for (uint64_t chunk = 0; chunk < chunks; chunk++) {
        /* relaxed: a snapshot. */
        unsigned length = moietyi_word_longest(
            moietyi_load_relaxed(&buddy->chunk_words[chunk]));
        if (length > longest)
            longest = length;
    }
    return longest;
}

uint64_t moietyi_buddy_largest_bytes(const struct moietyi_buddy *buddy)
{
    uint64_t pages = moietyi_buddy_longest_page_run(buddy);
    if (pages)
        return pages * MOIETYI_PAGE_BYTES;
    uint64_t chunks = longest_chunks(buddy);
    return chunks ? chunks * MOIETYI_CHUNK_BYTES
                  : longest_grains(buddy) * MOIETYI_GRAIN_BYTES;
}
