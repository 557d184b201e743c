/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: the numbered invariants of docs/internals/invariants.md, at rest.
 * Every operation of this file is relaxed: nobody else is at work.
 */
#include "pool/buddy/map_state.h"

static bool page_is_free(const struct moietyi_buddy *buddy, moietyi_page page)
{
    return moietyi_load_relaxed(&moietyi_group_of(buddy, page)->free_pages) &
           moietyi_page_bit(page);
}

static bool summary_misses(const moietyi_atomic_word *summary, uint64_t bit,
                           uint64_t word, unsigned plane)
{
    return moietyi_word_has_run(word, moietyi_plane_threshold[plane]) &&
           !(moietyi_load_relaxed(summary) & bit);
}

/* B1, B3 for one chunk; B4 for the grains that are free in it. */
static const char *check_chunk(const struct moietyi_buddy *buddy,
                               moietyi_chunk chunk, bool is_free_above,
                               moietyi_grain *out_at)
{
    moietyi_page page = moietyi_page_of_chunk(chunk);
    uint64_t word = moietyi_load_relaxed(&buddy->chunk_words[chunk.index]);
    *out_at = moietyi_grain_in_chunk(chunk, 0);
    if (is_free_above && word)
        return "B1: a free unit's word below is not 0";
    for (unsigned plane = 0; plane < MOIETYI_PLANE_COUNT; plane++) {
        const moietyi_atomic_word *summary =
            &buddy->pages[page.index].chunk_summary[plane];
        if (summary_misses(summary, UINT64_C(1) << moietyi_chunk_bit(chunk),
                           word, plane))
            return "B3: a run is not in its summary";
        if (moietyi_load_relaxed(summary) &&
            summary_misses(&moietyi_group_of(buddy, page)->grain_pages[plane],
                           moietyi_page_bit(page), word, plane))
            return "B3: a page is not in its summary";
    }
    uint64_t free_grains = is_free_above ? MOIETYI_WORD_FULL : word;
    for (; free_grains; free_grains &= free_grains - 1) {
        *out_at =
            moietyi_grain_in_chunk(chunk, moietyi_word_lowest(free_grains));
        if (moietyi_buddy_class(buddy, *out_at))
            return "B4: an interval starts in free memory";
    }
    return NULL;
}

static const char *check_page(const struct moietyi_buddy *buddy,
                              moietyi_page page, moietyi_grain *out_at)
{
    bool is_free = page_is_free(buddy, page);
    uint64_t word = moietyi_load_relaxed(&buddy->pages[page.index].word);
    *out_at = moietyi_grain_in_chunk(moietyi_chunk_in_page(page, 0), 0);
    if (is_free && word)
        return "B1: a free unit's word below is not 0";
    for (unsigned plane = 0; plane < MOIETYI_PLANE_COUNT; plane++)
        if (summary_misses(&moietyi_group_of(buddy, page)->chunk_pages[plane],
                           moietyi_page_bit(page), word, plane))
            return "B3: a run is not in its summary";
    for (unsigned i = 0; i < MOIETYI_PAGE_CHUNKS; i++) {
        bool is_free_above = is_free || (word >> i & 1);
        const char *broken = check_chunk(buddy, moietyi_chunk_in_page(page, i),
                                         is_free_above, out_at);
        if (broken)
            return broken;
    }
    return NULL;
}

/* B2: beyond the limit nothing is free. */
static const char *buddy_check_limit(const struct moietyi_buddy *buddy,
                                     moietyi_grain *out_at)
{
    uint32_t limit = moietyi_page_limit(buddy);
    for (moietyi_page page = {limit};
         page.index < moietyi_page_word_limit(buddy) * MOIETYI_WORD_BITS;
         page.index++) {
        *out_at = moietyi_grain_in_chunk(moietyi_chunk_in_page(page, 0), 0);
        if (page_is_free(buddy, page))
            return "B2: a page beyond the limit is free";
    }
    return NULL;
}

const char *moietyi_buddy_check(const struct moietyi_buddy *buddy,
                                moietyi_grain *out_at)
{
    const char *broken = buddy_check_limit(buddy, out_at);
    uint32_t limit = moietyi_page_limit(buddy);
    for (moietyi_page page = {0}; !broken && page.index < limit; page.index++)
        broken = check_page(buddy, page, out_at);
    return broken;
}

static bool check_is_full(const moietyi_atomic_word *word)
{
    return moietyi_load_relaxed(word) == MOIETYI_WORD_FULL;
}

const char *moietyi_buddy_check_merged(const struct moietyi_buddy *buddy,
                                       moietyi_grain *out_at)
{
    uint64_t limit = (uint64_t)moietyi_page_limit(buddy) * MOIETYI_PAGE_CHUNKS;
    for (moietyi_chunk chunk = {0}; chunk.index < limit; chunk.index++) {
        *out_at = moietyi_grain_in_chunk(chunk, 0);
        if (check_is_full(&buddy->chunk_words[chunk.index]))
            return "B5: a full word of grains is open";
        if (check_is_full(
                &buddy->pages[moietyi_page_of_chunk(chunk).index].word))
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

static struct words done_words(const struct moietyi_buddy *buddy,
                               moietyi_chunk chunk)
{
    moietyi_page page = moietyi_page_of_chunk(chunk);
    uint64_t chunks = moietyi_load_relaxed(&buddy->pages[page.index].word);
    return (struct words){
        moietyi_load_relaxed(&moietyi_group_of(buddy, page)->free_pages) &
            moietyi_page_bit(page),
        chunks >> moietyi_chunk_bit(chunk) & 1,
        moietyi_load_relaxed(&buddy->chunk_words[chunk.index])};
}

static struct words map_words(const struct moietyi_maps_group *group,
                              unsigned age, moietyi_chunk chunk)
{
    moietyi_page page = moietyi_page_of_chunk(chunk);
    unsigned page_bit = page.index % MOIETYI_WORD_BITS;
    unsigned chunk_bit = moietyi_chunk_bit(chunk);
    const struct moietyi_maps_parts *parts =
        moietyi_maps_parts_at(group, page_bit);
    uint64_t chunks = moietyi_load_relaxed(&group->page[page_bit].chunks[age]);
    return (struct words){
        moietyi_load_relaxed(&group->pages[age]) & moietyi_page_bit(page),
        chunks >> chunk_bit & 1,
        parts ? moietyi_load_relaxed(&parts->grains[chunk_bit][age]) : 0};
}

static bool is_free_twice(const struct words *words)
{
    return words->is_page_free + words->is_chunk_free + (words->grains != 0) >
           1;
}

static uint64_t check_free_grains(const struct words *words)
{
    return words->is_page_free || words->is_chunk_free ? MOIETYI_WORD_FULL
                                                       : words->grains;
}

/* M3 for what a map has of one chunk. */
static bool is_hinted(const struct moietyi_maps_group *group, unsigned age,
                      moietyi_chunk chunk, const struct words *words)
{
    moietyi_page page = moietyi_page_of_chunk(chunk);
    uint64_t cut = moietyi_load_relaxed(
        &group->page[page.index % MOIETYI_WORD_BITS].cut[age]);
    bool is_open =
        moietyi_load_relaxed(&group->open[age]) & moietyi_page_bit(page);
    bool is_cut = cut >> moietyi_chunk_bit(chunk) & 1;
    return (!words->is_chunk_free || is_open) &&
           (!words->grains || (is_open && is_cut));
}

static bool is_map_full(const struct moietyi_maps_group *group, unsigned age,
                        moietyi_chunk chunk, const struct words *words)
{
    moietyi_page page = moietyi_page_of_chunk(chunk);
    uint64_t chunks = moietyi_load_relaxed(
        &group->page[page.index % MOIETYI_WORD_BITS].chunks[age]);
    return words->grains == MOIETYI_WORD_FULL || chunks == MOIETYI_WORD_FULL;
}

/* M1, M3 and M4 for what one stream has of a chunk, which is added to `seen`. */
static const char *check_own(const struct moietyi_maps *maps,
                             moietyi_chunk chunk, uint64_t *seen)
{
    const struct moietyi_maps_group *group = moietyi_maps_group_at(
        maps, moietyi_page_of_chunk(chunk).index / MOIETYI_WORD_BITS);
    for (unsigned age = 0; group && age < MOIETYI_AGES; age++) {
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
static bool is_sum_right(const struct moietyi_maps *maps, unsigned age)
{
    uint64_t grains = 0;
    uint64_t chunks =
        (uint64_t)moietyi_page_limit(maps->buddy) * MOIETYI_PAGE_CHUNKS;
    for (moietyi_chunk chunk = {0}; chunk.index < chunks; chunk.index++) {
        const struct moietyi_maps_group *group = moietyi_maps_group_at(
            maps, moietyi_page_of_chunk(chunk).index / MOIETYI_WORD_BITS);
        if (!group)
            continue;
        struct words words = map_words(group, age, chunk);
        grains += moietyi_word_count(check_free_grains(&words));
    }
    return grains == moietyi_maps_grains(maps, age);
}

const char *moietyi_maps_check(const struct moietyi_maps *const *maps,
                               uint32_t count, moietyi_grain *out_at)
{
    const char *broken = NULL;
    const struct moietyi_buddy *buddy = maps[0]->buddy;
    uint64_t chunks = (uint64_t)moietyi_page_limit(buddy) * MOIETYI_PAGE_CHUNKS;
    for (moietyi_chunk chunk = {0}; !broken && chunk.index < chunks;
         chunk.index++) {
        *out_at = moietyi_grain_in_chunk(chunk, 0);
        struct words done = done_words(buddy, chunk);
        uint64_t seen = check_free_grains(&done);
        for (uint32_t i = 0; !broken && i < count; i++)
            broken = check_own(maps[i], chunk, &seen);
    }
    for (uint32_t i = 0; !broken && i < count * MOIETYI_AGES; i++)
        if (!is_sum_right(maps[i / MOIETYI_AGES], i % MOIETYI_AGES))
            broken = "M2: a map has another number of grains than it says";
    return broken;
}
