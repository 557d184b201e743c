/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Closes the words that hysteresis left open. A word that is all ones goes to
 * zero by one compare-and-swap, and whoever made that swap sets the bit above,
 * exactly as the give that filled it would have done.
 */
#include "pool/buddy/state.h"

static bool close_word(binadei_atomic_word *word)
{
    uint64_t full = BINADEI_WORD_FULL;
    /* relaxed: a first look. A weak swap that fails by itself is tried again
     * while the word is full. */
    while (binadei_load_relaxed(word) == BINADEI_WORD_FULL) {
        /* BW, both ends: as in a give. */
        if (binadei_cas_acq_rel(word, &full, 0)) {
            BINADEI_STEP("trim.closed");
            return true;
        }
        full = BINADEI_WORD_FULL;
    }
    return false;
}

void binadei_close_chunk(struct binadei_buddy *buddy,
                         const struct binadei_home *home, binadei_chunk chunk)
{
    if (close_word(&buddy->chunk_words[chunk.index]))
        (void)binadei_give_chunks(buddy, home, binadei_page_of_chunk(chunk),
                                  UINT64_C(1) << binadei_chunk_bit(chunk));
}

void binadei_close_page(struct binadei_buddy *buddy, binadei_page page)
{
    if (close_word(&buddy->pages[page.index].word))
        (void)binadei_give_pages(buddy, page.index / BINADEI_WORD_BITS,
                                 binadei_page_bit(page));
}

static void trim_page(struct binadei_buddy *buddy, binadei_page page)
{
    for (unsigned i = 0; i < BINADEI_PAGE_CHUNKS; i++)
        binadei_close_chunk(buddy, NULL, binadei_chunk_in_page(page, i));
    binadei_close_page(buddy, page);
}

void binadei_buddy_trim(struct binadei_buddy *buddy)
{
    uint32_t limit = binadei_page_limit(buddy);
    for (binadei_page page = {0}; page.index < limit; page.index++)
        trim_page(buddy, page);
}
