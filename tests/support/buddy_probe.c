/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/buddy_probe.h"

#include <string.h>

#include "pool/buddy/buddy.h"
#include "pool/buddy/map.h"
#include "pool/buddy/state.h"

_Static_assert(PROBE_AFFINITY_PAGES == BINADEI_AFFINITY_PAGES, "as many");
_Static_assert(sizeof(struct buddy_probe_affinity) ==
                   sizeof(struct binadei_affinity),
               "as large");

static struct binadei_affinity
affinity_of_probe(const struct buddy_probe_affinity *affinity)
{
    struct binadei_affinity own;
    memcpy(&own, affinity, sizeof(own));
    return own;
}

static void copy_affinity_back(const struct binadei_affinity *from,
                               struct buddy_probe_affinity *to)
{
    memcpy(to, from, sizeof(*to));
}

int buddy_probe_create(uint32_t page_capacity, struct binadei_buddy **out)
{
    return (int)binadei_buddy_create(page_capacity, out);
}

void buddy_probe_destroy(struct binadei_buddy *buddy)
{
    binadei_buddy_destroy(buddy);
}

void buddy_probe_add(struct binadei_buddy *buddy, uint32_t first_page,
                     uint32_t page_count)
{
    binadei_buddy_add(buddy, (binadei_page){first_page}, page_count);
}

bool buddy_probe_remove(struct binadei_buddy *buddy, uint32_t first_page,
                        uint32_t page_count)
{
    return binadei_buddy_remove(buddy, (binadei_page){first_page}, page_count);
}

uint32_t buddy_probe_take(struct binadei_buddy *buddy,
                          struct buddy_probe_affinity *affinity,
                          uint32_t grains, uint32_t count, uint32_t alignment,
                          uint64_t *out_starts)
{
    const struct binadei_take what = {grains, count, alignment};
    binadei_grain out[64];
    struct binadei_take part = what;
    if (part.count > 64)
        part.count = 64;
    struct binadei_affinity own = {0};
    if (affinity)
        own = affinity_of_probe(affinity);
    uint32_t taken =
        binadei_buddy_take(buddy, affinity ? &own : NULL, &part, out);
    if (affinity)
        copy_affinity_back(&own, affinity);
    for (uint32_t i = 0; i < taken; i++)
        out_starts[i] = out[i].index;
    return taken;
}

/* The best fit of free memory that no stream has. */
static bool probe_take_of_view(struct binadei_buddy *buddy, uint64_t grains,
                               uint32_t alignment, bool is_thorough,
                               uint64_t *out_start)
{
    const struct binadei_view view = {.buddy = buddy};
    binadei_grain out;
    bool is_taken =
        binadei_view_take_best(&view, grains, alignment, is_thorough, &out);
    if (is_taken)
        *out_start = out.index;
    return is_taken;
}

bool buddy_probe_take_last(struct binadei_buddy *buddy, uint32_t grains,
                           uint32_t alignment, uint64_t *out_start)
{
    binadei_buddy_trim(buddy);
    return probe_take_of_view(buddy, grains, alignment, true, out_start);
}

bool buddy_probe_take_run(struct binadei_buddy *buddy, uint64_t chunks,
                          uint64_t *out_start)
{
    uint64_t most = (uint64_t)buddy->page_capacity * BINADEI_PAGE_CHUNKS;
    return chunks && chunks <= most &&
           probe_take_of_view(buddy, chunks * BINADEI_CHUNK_GRAINS,
                              BINADEI_PAGE_GRAINS, false, out_start);
}

bool buddy_probe_give(struct binadei_buddy *buddy,
                      const struct buddy_probe_affinity *affinity,
                      uint64_t start, uint64_t grains)
{
    struct binadei_affinity own = {0};
    if (affinity)
        own = affinity_of_probe(affinity);
    return binadei_buddy_give(buddy, affinity ? &own : NULL,
                              binadei_grain_at(start), grains);
}

void buddy_probe_drop_affinity(struct binadei_buddy *buddy,
                               struct buddy_probe_affinity *affinity)
{
    struct binadei_affinity own = affinity_of_probe(affinity);
    binadei_buddy_drop_affinity(buddy, &own);
    copy_affinity_back(&own, affinity);
}

void buddy_probe_trim(struct binadei_buddy *buddy)
{
    binadei_buddy_trim(buddy);
}

uint64_t buddy_probe_free_grains(const struct binadei_buddy *buddy)
{
    return binadei_buddy_free_grains(buddy);
}

uint32_t buddy_probe_longest_page_run(const struct binadei_buddy *buddy)
{
    return binadei_buddy_longest_page_run(buddy);
}

uint8_t buddy_probe_class(const struct binadei_buddy *buddy, uint64_t start)
{
    return binadei_buddy_class(buddy, binadei_grain_at(start));
}

void buddy_probe_set_class(struct binadei_buddy *buddy, uint64_t start,
                           uint8_t class_byte)
{
    binadei_buddy_set_class(buddy, binadei_grain_at(start), class_byte);
}

uint8_t buddy_probe_end_class(struct binadei_buddy *buddy, uint64_t start)
{
    return binadei_buddy_end_class(buddy, binadei_grain_at(start));
}

uint64_t buddy_probe_run_grains(const struct binadei_buddy *buddy,
                                uint64_t start)
{
    return binadei_buddy_run_grains(buddy, binadei_grain_at(start));
}

void buddy_probe_set_run_grains(struct binadei_buddy *buddy, uint64_t start,
                                uint64_t grains)
{
    binadei_buddy_set_run_grains(buddy, binadei_grain_at(start), grains);
}

const char *buddy_probe_check(const struct binadei_buddy *buddy,
                              uint64_t *out_at)
{
    binadei_grain at = {0};
    const char *broken = binadei_buddy_check(buddy, &at);
    *out_at = at.index;
    return broken;
}

const char *buddy_probe_check_merged(const struct binadei_buddy *buddy,
                                     uint64_t *out_at)
{
    binadei_grain at = {0};
    const char *broken = binadei_buddy_check_merged(buddy, &at);
    *out_at = at.index;
    return broken;
}

/* Everything below is relaxed: tests call it at rest. */

uint64_t buddy_probe_chunk_word(const struct binadei_buddy *buddy,
                                uint64_t chunk)
{
    return binadei_load_relaxed(&buddy->chunk_words[chunk]);
}

uint64_t buddy_probe_page_word(const struct binadei_buddy *buddy, uint32_t page)
{
    return binadei_load_relaxed(&buddy->pages[page].word);
}

bool buddy_probe_is_page_free(const struct binadei_buddy *buddy, uint32_t page)
{
    const binadei_page at = {page};
    return binadei_load_relaxed(&binadei_group_of(buddy, at)->free_pages) &
           binadei_page_bit(at);
}

bool buddy_probe_has_affinity(const struct binadei_buddy *buddy, uint32_t page)
{
    const binadei_page at = {page};
    return binadei_load_relaxed(&binadei_group_of(buddy, at)->affinities) &
           binadei_page_bit(at);
}

uint32_t buddy_probe_page_limit(const struct binadei_buddy *buddy)
{
    return binadei_page_limit(buddy);
}

unsigned buddy_probe_plane_count(void)
{
    return BINADEI_PLANE_COUNT;
}

unsigned buddy_probe_plane_threshold(unsigned plane)
{
    return binadei_plane_threshold[plane];
}

bool buddy_probe_chunk_hint(const struct binadei_buddy *buddy, unsigned plane,
                            uint64_t chunk)
{
    const binadei_chunk at = {chunk};
    uint64_t hints = binadei_load_relaxed(
        &buddy->pages[binadei_page_of_chunk(at).index].chunk_summary[plane]);
    return hints >> binadei_chunk_bit(at) & 1;
}

void buddy_probe_forget_summaries(struct binadei_buddy *buddy)
{
    uint32_t limit = binadei_page_limit(buddy);
    for (unsigned plane = 0; plane < BINADEI_PLANE_COUNT; plane++) {
        for (uint32_t page = 0; page < limit; page++)
            binadei_store_relaxed(&buddy->pages[page].chunk_summary[plane], 0);
        for (uint32_t i = 0; i < binadei_page_word_limit(buddy); i++) {
            binadei_store_relaxed(&buddy->groups[i].grain_pages[plane], 0);
            binadei_store_relaxed(&buddy->groups[i].chunk_pages[plane], 0);
        }
    }
}

void buddy_probe_write_chunk_word(struct binadei_buddy *buddy, uint64_t chunk,
                                  uint64_t word)
{
    binadei_store_relaxed(&buddy->chunk_words[chunk], word);
}

void buddy_probe_write_page_word(struct binadei_buddy *buddy, uint32_t page,
                                 uint64_t word)
{
    binadei_store_relaxed(&buddy->pages[page].word, word);
}

void buddy_probe_write_page_free(struct binadei_buddy *buddy, uint32_t page,
                                 bool is_free)
{
    const binadei_page at = {page};
    binadei_atomic_word *word = &binadei_group_of(buddy, at)->free_pages;
    uint64_t others = binadei_load_relaxed(word) & ~binadei_page_bit(at);
    binadei_store_relaxed(word,
                          is_free ? others | binadei_page_bit(at) : others);
}
