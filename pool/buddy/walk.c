/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is free, from a grain on. Exact while nobody takes or gives. Every
 * operation of this file is relaxed: who asks has seen others' work end by other
 * means.
 */
#include "pool/buddy/state.h"

/* Grains that are free from `start` on within its chunk. */
static uint64_t free_in_chunk(const struct binadei_buddy *buddy,
                              binadei_grain start)
{
    unsigned bit = binadei_grain_bit(start);
    uint64_t word = binadei_load_relaxed(
        &buddy->chunk_words[binadei_chunk_of_grain(start).index]);
    uint64_t taken = ~(word >> bit);
    uint64_t length = taken ? binadei_word_lowest(taken) : BINADEI_WORD_BITS;
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
