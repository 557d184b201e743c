/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/buddy_probe.h"

#include <string.h>

#include "pool/buddy/buddy.h"
#include "pool/buddy/map.h"
#include "pool/buddy/state.h"

_Static_assert(PROBE_AFFINITY_PAGES == MOIETYI_AFFINITY_PAGES, "as many");
_Static_assert(sizeof(struct buddy_probe_affinity) ==
                   sizeof(struct moietyi_affinity),
               "as large");

static struct moietyi_affinity
affinity_of_probe(const struct buddy_probe_affinity *affinity)
{
    struct moietyi_affinity own;
    memcpy(&own, affinity, sizeof(own));
    return own;
}

static void copy_affinity_back(const struct moietyi_affinity *from,
                               struct buddy_probe_affinity *to)
{
    memcpy(to, from, sizeof(*to));
}

int buddy_probe_create(uint32_t page_capacity, struct moietyi_buddy **out)
{
    return (int)moietyi_buddy_create(page_capacity, out);
}

void buddy_probe_destroy(struct moietyi_buddy *buddy)
{
    moietyi_buddy_destroy(buddy);
}

void buddy_probe_add(struct moietyi_buddy *buddy, uint32_t first_page,
                     uint32_t page_count)
{
    (void)moietyi_buddy_add(buddy, (moietyi_page){first_page}, page_count);
}

bool buddy_probe_remove(struct moietyi_buddy *buddy, uint32_t first_page,
                        uint32_t page_count)
{
    return moietyi_buddy_remove(buddy, (moietyi_page){first_page}, page_count);
}

uint32_t buddy_probe_take(struct moietyi_buddy *buddy,
                          struct buddy_probe_affinity *affinity,
                          uint32_t grains, uint32_t count, uint32_t alignment,
                          uint64_t *out_starts)
{
    const struct moietyi_take what = {grains, count, alignment};
    moietyi_grain out[64];
    struct moietyi_take part = what;
    if (part.count > 64)
        part.count = 64;
    struct moietyi_affinity own = {0};
    if (affinity)
        own = affinity_of_probe(affinity);
    uint32_t taken =
        moietyi_buddy_take(buddy, affinity ? &own : NULL, &part, out);
    if (affinity)
        copy_affinity_back(&own, affinity);
    for (uint32_t i = 0; i < taken; i++)
        out_starts[i] = out[i].index;
    return taken;
}

/* The best fit of free memory that no stream has. */
static bool probe_take_of_view(struct moietyi_buddy *buddy, uint64_t grains,
                               uint32_t alignment, bool is_thorough,
                               uint64_t *out_start)
{
    const struct moietyi_view view = {.buddy = buddy};
    moietyi_grain out;
    bool is_taken =
        moietyi_view_take_best(&view, grains, alignment, is_thorough, &out);
    if (is_taken)
        *out_start = out.index;
    return is_taken;
}

bool buddy_probe_take_last(struct moietyi_buddy *buddy, uint32_t grains,
                           uint32_t alignment, uint64_t *out_start)
{
    moietyi_buddy_trim(buddy);
    return probe_take_of_view(buddy, grains, alignment, true, out_start);
}

bool buddy_probe_take_run(struct moietyi_buddy *buddy, uint64_t chunks,
                          uint64_t *out_start)
{
    uint64_t most = (uint64_t)buddy->page_capacity * MOIETYI_PAGE_CHUNKS;
    return chunks && chunks <= most &&
           probe_take_of_view(buddy, chunks * MOIETYI_CHUNK_GRAINS,
                              MOIETYI_PAGE_GRAINS, false, out_start);
}

bool buddy_probe_give(struct moietyi_buddy *buddy,
                      const struct buddy_probe_affinity *affinity,
                      uint64_t start, uint64_t grains)
{
    struct moietyi_affinity own = {0};
    if (affinity)
        own = affinity_of_probe(affinity);
    return moietyi_buddy_give(buddy, affinity ? &own : NULL,
                              moietyi_grain_at(start), grains);
}

void buddy_probe_drop_affinity(struct moietyi_buddy *buddy,
                               struct buddy_probe_affinity *affinity)
{
    struct moietyi_affinity own = affinity_of_probe(affinity);
    moietyi_buddy_drop_affinity(buddy, &own);
    copy_affinity_back(&own, affinity);
}

void buddy_probe_trim(struct moietyi_buddy *buddy)
{
    moietyi_buddy_trim(buddy);
}

uint64_t buddy_probe_free_grains(const struct moietyi_buddy *buddy)
{
    return moietyi_buddy_free_grains(buddy);
}

uint32_t buddy_probe_longest_page_run(const struct moietyi_buddy *buddy)
{
    return moietyi_buddy_longest_page_run(buddy);
}

uint8_t buddy_probe_class(const struct moietyi_buddy *buddy, uint64_t start)
{
    return moietyi_buddy_class(buddy, moietyi_grain_at(start));
}

void buddy_probe_set_class(struct moietyi_buddy *buddy, uint64_t start,
                           uint8_t class_byte)
{
    moietyi_buddy_set_class(buddy, moietyi_grain_at(start), class_byte);
}

uint8_t buddy_probe_end_class(struct moietyi_buddy *buddy, uint64_t start)
{
    return moietyi_buddy_end_class(buddy, moietyi_grain_at(start));
}

uint64_t buddy_probe_run_grains(const struct moietyi_buddy *buddy,
                                uint64_t start)
{
    return moietyi_buddy_run_grains(buddy, moietyi_grain_at(start));
}

void buddy_probe_set_run_grains(struct moietyi_buddy *buddy, uint64_t start,
                                uint64_t grains)
{
    moietyi_buddy_set_run_grains(buddy, moietyi_grain_at(start), grains);
}

const char *buddy_probe_check(const struct moietyi_buddy *buddy,
                              uint64_t *out_at)
{
    moietyi_grain at = {0};
    const char *broken = moietyi_buddy_check(buddy, &at);
    *out_at = at.index;
    return broken;
}

const char *buddy_probe_check_merged(const struct moietyi_buddy *buddy,
                                     uint64_t *out_at)
{
    moietyi_grain at = {0};
    const char *broken = moietyi_buddy_check_merged(buddy, &at);
    *out_at = at.index;
    return broken;
}

/* Everything below is relaxed: tests call it at rest. */

uint64_t buddy_probe_chunk_word(const struct moietyi_buddy *buddy,
                                uint64_t chunk)
{
    return moietyi_load_relaxed(&buddy->chunk_words[chunk]);
}

uint64_t buddy_probe_page_word(const struct moietyi_buddy *buddy, uint32_t page)
{
    return moietyi_load_relaxed(&buddy->pages[page].word);
}

uint64_t buddy_probe_free_from(const struct moietyi_buddy *buddy,
                               uint64_t start, uint64_t end)
{
    return moietyi_buddy_free_from(buddy, moietyi_grain_at(start),
                                   moietyi_grain_at(end));
}

bool buddy_probe_is_page_free(const struct moietyi_buddy *buddy, uint32_t page)
{
    const moietyi_page at = {page};
    return moietyi_load_relaxed(&moietyi_group_of(buddy, at)->free_pages) &
           moietyi_page_bit(at);
}

bool buddy_probe_has_affinity(const struct moietyi_buddy *buddy, uint32_t page)
{
    const moietyi_page at = {page};
    return moietyi_load_relaxed(&moietyi_group_of(buddy, at)->affinities) &
           moietyi_page_bit(at);
}

uint32_t buddy_probe_page_limit(const struct moietyi_buddy *buddy)
{
    return moietyi_page_limit(buddy);
}

unsigned buddy_probe_plane_count(void)
{
    return MOIETYI_PLANE_COUNT;
}

unsigned buddy_probe_plane_threshold(unsigned plane)
{
    return moietyi_plane_threshold[plane];
}

bool buddy_probe_chunk_hint(const struct moietyi_buddy *buddy, unsigned plane,
                            uint64_t chunk)
{
    const moietyi_chunk at = {chunk};
    uint64_t hints = moietyi_load_relaxed(
        &buddy->pages[moietyi_page_of_chunk(at).index].chunk_summary[plane]);
    return hints >> moietyi_chunk_bit(at) & 1;
}

void buddy_probe_forget_summaries(struct moietyi_buddy *buddy)
{
    uint32_t limit = moietyi_page_limit(buddy);
    for (unsigned plane = 0; plane < MOIETYI_PLANE_COUNT; plane++) {
        for (uint32_t page = 0; page < limit; page++)
            moietyi_store_relaxed(&buddy->pages[page].chunk_summary[plane], 0);
        for (uint32_t i = 0; i < moietyi_page_word_limit(buddy); i++) {
            moietyi_store_relaxed(&buddy->groups[i].grain_pages[plane], 0);
            moietyi_store_relaxed(&buddy->groups[i].chunk_pages[plane], 0);
        }
    }
}

void buddy_probe_write_chunk_word(struct moietyi_buddy *buddy, uint64_t chunk,
                                  uint64_t word)
{
    moietyi_store_relaxed(&buddy->chunk_words[chunk], word);
}

void buddy_probe_write_page_word(struct moietyi_buddy *buddy, uint32_t page,
                                 uint64_t word)
{
    moietyi_store_relaxed(&buddy->pages[page].word, word);
}

void buddy_probe_write_page_free(struct moietyi_buddy *buddy, uint32_t page,
                                 bool is_free)
{
    const moietyi_page at = {page};
    moietyi_atomic_word *word = &moietyi_group_of(buddy, at)->free_pages;
    uint64_t others = moietyi_load_relaxed(word) & ~moietyi_page_bit(at);
    moietyi_store_relaxed(word,
                          is_free ? others | moietyi_page_bit(at) : others);
}
