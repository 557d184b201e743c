/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The largest interval that is free: a run of pages, or without a free page of
 * one page's chunks, or without a free chunk of one chunk's grains. A take finds
 * no longer ones, as none crosses from one word to another below the pages.
 */
#include "pool/buddy/state.h"

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
