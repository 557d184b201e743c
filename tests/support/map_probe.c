/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/map_probe.h"

#include "pool/buddy/extent.h"
#include "pool/buddy/map.h"

_Static_assert((int)PROBE_FRESH == (int)MOIETYI_FRESH, "the same");
_Static_assert((int)PROBE_AGEING == (int)MOIETYI_AGEING, "the same");
_Static_assert((int)PROBE_AGES == (int)MOIETYI_AGES, "as many");

#define TAKEN_MAX 64U

struct moietyi_maps *map_probe_create(struct moietyi_buddy *buddy)
{
    return moietyi_maps_create(buddy);
}

void map_probe_destroy(struct moietyi_maps *maps)
{
    moietyi_maps_destroy(maps);
}

enum map_probe_given map_probe_give(struct moietyi_maps *maps, uint64_t start,
                                    uint64_t grains)
{
    switch (moietyi_maps_give(maps, moietyi_grain_at(start), grains)) {
    case MOIETYI_MAP_GIVEN:
        return PROBE_GIVEN;
    case MOIETYI_MAP_NO_MEMORY:
        return PROBE_NO_MEMORY;
    default:
        return PROBE_TWICE;
    }
}

uint64_t map_probe_close(struct moietyi_maps *maps)
{
    return moietyi_maps_close(maps);
}

uint64_t map_probe_drain(struct moietyi_maps *maps, enum map_probe_age age)
{
    return moietyi_maps_drain(maps, (enum moietyi_map_age)age);
}

uint64_t map_probe_hand(struct moietyi_maps *maps, enum map_probe_age age,
                        struct moietyi_maps *to)
{
    return moietyi_maps_hand(maps, (enum moietyi_map_age)age, to);
}

uint64_t map_probe_grains(const struct moietyi_maps *maps,
                          enum map_probe_age age)
{
    return moietyi_maps_grains(maps, (enum moietyi_map_age)age);
}

uint64_t map_probe_free_from(const struct moietyi_maps *maps, uint64_t start,
                             uint64_t end)
{
    return moietyi_maps_free_from(maps, moietyi_grain_at(start),
                                  moietyi_grain_at(end));
}

static uint32_t take(struct moietyi_maps *maps, uint32_t grains, uint32_t count,
                     uint32_t alignment, bool is_gathered, uint64_t *out_starts)
{
    const struct moietyi_take what = {
        grains, count < TAKEN_MAX ? count : TAKEN_MAX, alignment};
    moietyi_grain out[TAKEN_MAX];
    uint32_t taken = moietyi_maps_take(maps, &what, is_gathered, out);
    for (uint32_t i = 0; i < taken; i++)
        out_starts[i] = out[i].index;
    return taken;
}

uint32_t map_probe_take(struct moietyi_maps *maps, uint32_t grains,
                        uint32_t count, uint32_t alignment,
                        uint64_t *out_starts)
{
    return take(maps, grains, count, alignment, false, out_starts);
}

uint32_t map_probe_take_gathered(struct moietyi_maps *maps, uint32_t grains,
                                 uint32_t count, uint64_t *out_starts)
{
    return take(maps, grains, count, 1, true, out_starts);
}

static struct moietyi_view view_of_probe(const struct map_probe_view *view)
{
    return (struct moietyi_view){.buddy = view->buddy,
                                 .maps = view->maps,
                                 .is_own_only = view->is_own_only};
}

bool map_probe_view_take(const struct map_probe_view *view, uint64_t grains,
                         uint32_t alignment, bool is_thorough,
                         uint64_t *out_start)
{
    const struct moietyi_view own = view_of_probe(view);
    moietyi_grain out;
    bool is_taken = view->is_good_enough && !is_thorough
                        ? moietyi_view_take(&own, grains, alignment, &out)
                        : moietyi_view_take_best(&own, grains, alignment,
                                                 is_thorough, &out);
    if (is_taken)
        *out_start = out.index;
    return is_taken;
}

bool map_probe_good_fit(const struct map_probe_view *view, uint64_t grains,
                        uint32_t alignment, uint64_t *out_start)
{
    const struct moietyi_view own = view_of_probe(view);
    moietyi_grain out;
    bool is_taken = moietyi_view_take_good(&own, grains, alignment, &out);
    if (is_taken)
        *out_start = out.index;
    return is_taken;
}

bool map_probe_view_claim(const struct map_probe_view *view, uint64_t start,
                          uint64_t grains)
{
    const struct moietyi_view own = view_of_probe(view);
    return moietyi_view_claim(&own, moietyi_grain_at(start), grains);
}

const char *map_probe_check(const struct moietyi_maps *const *maps,
                            uint32_t count, uint64_t *out_at)
{
    moietyi_grain at = {0};
    const char *broken = moietyi_maps_check(maps, count, &at);
    *out_at = at.index;
    return broken;
}

/* Everything below is relaxed: tests call it at rest. */

/* The words of one map above a chunk, or 0 where the stream has none. */
struct words {
    uint64_t pages;
    uint64_t chunks;
    uint64_t grains;
    unsigned page_bit;
    unsigned chunk_bit;
};

static struct words words_at(const struct moietyi_maps *maps,
                             enum map_probe_age age, uint64_t chunk)
{
    uint64_t page = chunk / MOIETYI_PAGE_CHUNKS;
    struct words words = {.page_bit = (unsigned)(page % MOIETYI_WORD_BITS),
                          .chunk_bit = (unsigned)(chunk % MOIETYI_PAGE_CHUNKS)};
    const struct moietyi_maps_group *group =
        moietyi_maps_group_at(maps, (uint32_t)(page / MOIETYI_WORD_BITS));
    if (!group)
        return words;
    const struct moietyi_maps_parts *parts =
        moietyi_maps_parts_at(group, words.page_bit);
    words.pages = moietyi_load_relaxed(&group->pages[age]);
    words.chunks =
        moietyi_load_relaxed(&group->page[words.page_bit].chunks[age]);
    if (parts)
        words.grains =
            moietyi_load_relaxed(&parts->grains[words.chunk_bit][age]);
    return words;
}

static uint64_t grains_of(const struct words *words)
{
    bool is_whole = words->pages >> words->page_bit & 1 ||
                    words->chunks >> words->chunk_bit & 1;
    return is_whole ? MOIETYI_WORD_FULL : words->grains;
}

uint64_t map_probe_chunk(const struct moietyi_maps *maps,
                         enum map_probe_age age, uint64_t chunk)
{
    const struct words words = words_at(maps, age, chunk);
    return grains_of(&words);
}

uint64_t map_probe_done_chunk(const struct moietyi_buddy *buddy, uint64_t chunk)
{
    const moietyi_page page = moietyi_page_of_chunk((moietyi_chunk){chunk});
    const struct words words = {
        moietyi_load_relaxed(&moietyi_group_of(buddy, page)->free_pages),
        moietyi_load_relaxed(&buddy->pages[page.index].word),
        moietyi_load_relaxed(&buddy->chunk_words[chunk]),
        page.index % MOIETYI_WORD_BITS,
        (unsigned)(chunk % MOIETYI_PAGE_CHUNKS)};
    return grains_of(&words);
}

enum map_probe_level map_probe_level_of(const struct moietyi_maps *maps,
                                        enum map_probe_age age, uint64_t grain)
{
    const struct words words =
        words_at(maps, age, grain / MOIETYI_CHUNK_GRAINS);
    if (words.pages >> words.page_bit & 1)
        return PROBE_PAGE;
    if (words.chunks >> words.chunk_bit & 1)
        return PROBE_CHUNK;
    return words.grains >> (grain % MOIETYI_CHUNK_GRAINS) & 1 ? PROBE_GRAIN
                                                              : PROBE_NOWHERE;
}

unsigned map_probe_contended(const struct moietyi_buddy *buddy)
{
    return atomic_load_explicit(&buddy->contended_runs, memory_order_relaxed);
}

void map_probe_contend(struct moietyi_buddy *buddy, bool is_contended)
{
    atomic_store_explicit(&buddy->contended_runs, is_contended,
                          memory_order_relaxed);
}

static void forget_hints_of(struct moietyi_maps_group *group, unsigned age)
{
    moietyi_store_relaxed(&group->open[age], 0);
    for (unsigned i = 0; i < MOIETYI_WORD_BITS; i++)
        moietyi_store_relaxed(&group->page[i].cut[age], 0);
}

void map_probe_forget_hints(struct moietyi_maps *maps)
{
    for (uint32_t i = 0; i < maps->leaf_count * MOIETYI_LEAF_GROUPS; i++) {
        struct moietyi_maps_group *group = moietyi_maps_group_at(maps, i);
        for (unsigned age = 0; group && age < MOIETYI_AGES; age++)
            forget_hints_of(group, age);
    }
}

void map_probe_write_grains(struct moietyi_maps *maps, enum map_probe_age age,
                            uint64_t chunk, uint64_t word)
{
    uint64_t page = chunk / MOIETYI_PAGE_CHUNKS;
    const struct moietyi_maps_group *group =
        moietyi_maps_group_at(maps, (uint32_t)(page / MOIETYI_WORD_BITS));
    struct moietyi_maps_parts *parts =
        moietyi_maps_parts_at(group, (unsigned)(page % MOIETYI_WORD_BITS));
    moietyi_store_relaxed(&parts->grains[chunk % MOIETYI_PAGE_CHUNKS][age],
                          word);
}

void map_probe_write_chunks(struct moietyi_maps *maps, enum map_probe_age age,
                            uint32_t page, uint64_t word)
{
    struct moietyi_maps_group *group =
        moietyi_maps_group_at(maps, page / MOIETYI_WORD_BITS);
    moietyi_store_relaxed(&group->page[page % MOIETYI_WORD_BITS].chunks[age],
                          word);
}
