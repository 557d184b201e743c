/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: the numbered invariants of docs/internals/invariants.md, at rest.
 * Every operation of this file is relaxed: nobody else is at work.
 */
#include "pool/buddy/map_state.h"

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
static const char *buddy_check_limit(const struct binadei_buddy *buddy,
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
    const char *broken = buddy_check_limit(buddy, out_at);
    uint32_t limit = binadei_page_limit(buddy);
    for (binadei_page page = {0}; !broken && page.index < limit; page.index++)
        broken = check_page(buddy, page, out_at);
    return broken;
}

static bool check_is_full(const binadei_atomic_word *word)
{
    return binadei_load_relaxed(word) == BINADEI_WORD_FULL;
}

const char *binadei_buddy_check_merged(const struct binadei_buddy *buddy,
                                       binadei_grain *out_at)
{
    uint64_t limit = (uint64_t)binadei_page_limit(buddy) * BINADEI_PAGE_CHUNKS;
    for (binadei_chunk chunk = {0}; chunk.index < limit; chunk.index++) {
        *out_at = binadei_grain_in_chunk(chunk, 0);
        if (check_is_full(&buddy->chunk_words[chunk.index]))
            return "B5: a full word of grains is open";
        if (check_is_full(
                &buddy->pages[binadei_page_of_chunk(chunk).index].word))
            return "B5: a full word of chunks is open";
    }
    return NULL;
}

/* What one map's words say of a chunk, or the buddy's. */
struct words {
    bool is_page_free;
    bool is_chunk_free;
    uint64_t grains;
};

static struct words done_words(const struct binadei_buddy *buddy,
                               binadei_chunk chunk)
{
    binadei_page page = binadei_page_of_chunk(chunk);
    uint64_t chunks = binadei_load_relaxed(&buddy->pages[page.index].word);
    return (struct words){
        binadei_load_relaxed(&binadei_group_of(buddy, page)->free_pages) &
            binadei_page_bit(page),
        chunks >> binadei_chunk_bit(chunk) & 1,
        binadei_load_relaxed(&buddy->chunk_words[chunk.index])};
}

static struct words map_words(const struct binadei_maps_group *group,
                              unsigned age, binadei_chunk chunk)
{
    binadei_page page = binadei_page_of_chunk(chunk);
    unsigned page_bit = page.index % BINADEI_WORD_BITS;
    unsigned chunk_bit = binadei_chunk_bit(chunk);
    const struct binadei_maps_parts *parts =
        binadei_maps_parts_at(group, page_bit);
    uint64_t chunks = binadei_load_relaxed(&group->page[page_bit].chunks[age]);
    return (struct words){
        binadei_load_relaxed(&group->pages[age]) & binadei_page_bit(page),
        chunks >> chunk_bit & 1,
        parts ? binadei_load_relaxed(&parts->grains[chunk_bit][age]) : 0};
}

static bool is_free_twice(const struct words *words)
{
    return words->is_page_free + words->is_chunk_free + (words->grains != 0) >
           1;
}

static uint64_t check_free_grains(const struct words *words)
{
    return words->is_page_free || words->is_chunk_free ? BINADEI_WORD_FULL
                                                       : words->grains;
}

/* M3 for what a map has of one chunk. */
static bool is_hinted(const struct binadei_maps_group *group, unsigned age,
                      binadei_chunk chunk, const struct words *words)
{
    binadei_page page = binadei_page_of_chunk(chunk);
    uint64_t cut = binadei_load_relaxed(
        &group->page[page.index % BINADEI_WORD_BITS].cut[age]);
    bool is_open =
        binadei_load_relaxed(&group->open[age]) & binadei_page_bit(page);
    bool is_cut = cut >> binadei_chunk_bit(chunk) & 1;
    return (!words->is_chunk_free || is_open) &&
           (!words->grains || (is_open && is_cut));
}

static bool is_map_full(const struct binadei_maps_group *group, unsigned age,
                        binadei_chunk chunk, const struct words *words)
{
    binadei_page page = binadei_page_of_chunk(chunk);
    uint64_t chunks = binadei_load_relaxed(
        &group->page[page.index % BINADEI_WORD_BITS].chunks[age]);
    return words->grains == BINADEI_WORD_FULL || chunks == BINADEI_WORD_FULL;
}

/* M1, M3 and M4 for what one stream has of a chunk, which is added to `seen`. */
static const char *check_own(const struct binadei_maps *maps,
                             binadei_chunk chunk, uint64_t *seen)
{
    const struct binadei_maps_group *group = binadei_maps_group_at(
        maps, binadei_page_of_chunk(chunk).index / BINADEI_WORD_BITS);
    for (unsigned age = 0; group && age < BINADEI_AGES; age++) {
        struct words words = map_words(group, age, chunk);
        uint64_t grains = check_free_grains(&words);
        if (is_free_twice(&words))
            return "M1: a unit is free at two levels of a map";
        if (grains & *seen)
            return "M1: a grain is free in two maps";
        *seen |= grains;
        if (!is_hinted(group, age, chunk, &words))
            return "M3: a word is not in its hints";
        if (is_map_full(group, age, chunk, &words))
            return "M4: a full word of a map is open";
    }
    return NULL;
}

/* M2. */
static bool is_sum_right(const struct binadei_maps *maps, unsigned age)
{
    uint64_t grains = 0;
    uint64_t chunks =
        (uint64_t)binadei_page_limit(maps->buddy) * BINADEI_PAGE_CHUNKS;
    for (binadei_chunk chunk = {0}; chunk.index < chunks; chunk.index++) {
        const struct binadei_maps_group *group = binadei_maps_group_at(
            maps, binadei_page_of_chunk(chunk).index / BINADEI_WORD_BITS);
        if (!group)
            continue;
        struct words words = map_words(group, age, chunk);
        grains += binadei_word_count(check_free_grains(&words));
    }
    return grains == binadei_maps_grains(maps, age);
}

const char *binadei_maps_check(const struct binadei_maps *const *maps,
                               uint32_t count, binadei_grain *out_at)
{
    const char *broken = NULL;
    const struct binadei_buddy *buddy = maps[0]->buddy;
    uint64_t chunks = (uint64_t)binadei_page_limit(buddy) * BINADEI_PAGE_CHUNKS;
    for (binadei_chunk chunk = {0}; !broken && chunk.index < chunks;
         chunk.index++) {
        *out_at = binadei_grain_in_chunk(chunk, 0);
        struct words done = done_words(buddy, chunk);
        uint64_t seen = check_free_grains(&done);
        for (uint32_t i = 0; !broken && i < count; i++)
            broken = check_own(maps[i], chunk, &seen);
    }
    for (uint32_t i = 0; !broken && i < count * BINADEI_AGES; i++)
        if (!is_sum_right(maps[i / BINADEI_AGES], i % BINADEI_AGES))
            broken = "M2: a map has another number of grains than it says";
    return broken;
}
