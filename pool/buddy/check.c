/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: the numbered invariants of docs/invariants.md, at rest. Relaxed
 * loads throughout: nobody else is at work.
 */
#include "pool/buddy/state.h"

static bool page_is_free(const struct binadei_buddy *buddy, binadei_page page)
{
    return binadei_load_relaxed(&binadei_group_of(buddy, page)->free_pages) &
           binadei_page_bit(page);
}

static bool summary_misses(const binadei_atomic_word *summary, uint64_t bit,
                           uint64_t word, unsigned plane)
{
    return binadei_word_has_run(word, binadei_plane_threshold[plane]) &&
           !(binadei_load_relaxed(summary) & bit);
}

/* B1, B3 for one chunk; B4 for the grains that are free in it. */
static const char *check_chunk(const struct binadei_buddy *buddy,
                               binadei_chunk chunk, bool is_free_above,
                               binadei_grain *out_at)
{
    binadei_page page = binadei_page_of_chunk(chunk);
    uint64_t word = binadei_load_relaxed(&buddy->chunk_words[chunk.index]);
    *out_at = binadei_grain_in_chunk(chunk, 0);
    if (is_free_above && word)
        return "B1: a free unit's word below is not 0";
    for (unsigned plane = 0; plane < BINADEI_PLANE_COUNT; plane++) {
        const binadei_atomic_word *summary =
            &buddy->pages[page.index].chunk_summary[plane];
        if (summary_misses(summary, UINT64_C(1) << binadei_chunk_bit(chunk),
                           word, plane))
            return "B3: a run is not in its summary";
        if (binadei_load_relaxed(summary) &&
            summary_misses(&binadei_group_of(buddy, page)->grain_pages[plane],
                           binadei_page_bit(page), word, plane))
            return "B3: a page is not in its summary";
    }
    uint64_t free_grains = is_free_above ? BINADEI_WORD_FULL : word;
    for (; free_grains; free_grains &= free_grains - 1) {
        *out_at =
            binadei_grain_in_chunk(chunk, binadei_word_lowest(free_grains));
        if (binadei_buddy_class(buddy, *out_at))
            return "B4: an interval starts in free memory";
    }
    return NULL;
}

static const char *check_page(const struct binadei_buddy *buddy,
                              binadei_page page, binadei_grain *out_at)
{
    bool is_free = page_is_free(buddy, page);
    uint64_t word = binadei_load_relaxed(&buddy->pages[page.index].word);
    *out_at = binadei_grain_in_chunk(binadei_chunk_in_page(page, 0), 0);
    if (is_free && word)
        return "B1: a free unit's word below is not 0";
    for (unsigned plane = 0; plane < BINADEI_PLANE_COUNT; plane++)
        if (summary_misses(&binadei_group_of(buddy, page)->chunk_pages[plane],
                           binadei_page_bit(page), word, plane))
            return "B3: a run is not in its summary";
    for (unsigned i = 0; i < BINADEI_PAGE_CHUNKS; i++) {
        bool is_free_above = is_free || (word >> i & 1);
        const char *broken = check_chunk(buddy, binadei_chunk_in_page(page, i),
                                         is_free_above, out_at);
        if (broken)
            return broken;
    }
    return NULL;
}

/* B2: beyond the limit nothing is free. */
static const char *check_limit(const struct binadei_buddy *buddy,
                               binadei_grain *out_at)
{
    uint32_t limit = binadei_page_limit(buddy);
    for (binadei_page page = {limit};
         page.index < binadei_page_word_limit(buddy) * BINADEI_WORD_BITS;
         page.index++) {
        *out_at = binadei_grain_in_chunk(binadei_chunk_in_page(page, 0), 0);
        if (page_is_free(buddy, page))
            return "B2: a page beyond the limit is free";
    }
    return NULL;
}

const char *binadei_buddy_check(const struct binadei_buddy *buddy,
                                binadei_grain *out_at)
{
    const char *broken = check_limit(buddy, out_at);
    uint32_t limit = binadei_page_limit(buddy);
    for (binadei_page page = {0}; !broken && page.index < limit; page.index++)
        broken = check_page(buddy, page, out_at);
    return broken;
}

static bool is_full(const binadei_atomic_word *word)
{
    return binadei_load_relaxed(word) == BINADEI_WORD_FULL;
}

const char *binadei_buddy_check_merged(const struct binadei_buddy *buddy,
                                       binadei_grain *out_at)
{
    uint64_t limit = (uint64_t)binadei_page_limit(buddy) * BINADEI_PAGE_CHUNKS;
    for (binadei_chunk chunk = {0}; chunk.index < limit; chunk.index++) {
        *out_at = binadei_grain_in_chunk(chunk, 0);
        if (is_full(&buddy->chunk_words[chunk.index]))
            return "B5: a full word of grains is open";
        if (is_full(&buddy->pages[binadei_page_of_chunk(chunk).index].word))
            return "B5: a full word of chunks is open";
    }
    return NULL;
}

uint64_t binadei_buddy_free_grains(const struct binadei_buddy *buddy)
{
    uint64_t grains = 0;
    uint32_t limit = binadei_page_limit(buddy);
    for (binadei_page page = {0}; page.index < limit; page.index++) {
        if (page_is_free(buddy, page))
            grains += BINADEI_PAGE_GRAINS;
        grains += (uint64_t)BINADEI_CHUNK_GRAINS *
                  binadei_word_count(
                      binadei_load_relaxed(&buddy->pages[page.index].word));
        for (unsigned i = 0; i < BINADEI_PAGE_CHUNKS; i++)
            grains += binadei_word_count(binadei_load_relaxed(
                &buddy->chunk_words[binadei_chunk_in_page(page, i).index]));
    }
    return grains;
}
