/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Availability summaries. Raising is unconditional at every level: a thread
 * that skipped the upper level because it saw the bit set could hide a free
 * word behind another thread that has cleared that bit and not yet looked
 * again, and on weak memory it would lose the word for good. Lowering clears
 * first and looks again after, so that a run made in between is seen by one of
 * the two.
 */
#include "pool/buddy/state.h"

static void raise_grain_page(struct binadei_buddy *buddy, binadei_page page,
                             unsigned plane)
{
    /* BS.release */
    binadei_or_acq_rel(binadei_bit_word(buddy->grain_pages[plane], page),
                       binadei_page_bit(page));
}

static void raise_chunk(struct binadei_buddy *buddy, binadei_chunk chunk,
                        unsigned plane)
{
    binadei_page page = binadei_page_of_chunk(chunk);
    /* BS.release: after the word, in both levels. */
    binadei_or_acq_rel(&buddy->chunk_summary[plane][page.index],
                       UINT64_C(1) << binadei_chunk_bit(chunk));
    raise_grain_page(buddy, page, plane);
}

void binadei_summary_raise_chunk(struct binadei_buddy *buddy,
                                 binadei_chunk chunk, uint64_t before,
                                 uint64_t after)
{
    for (unsigned plane = 0; plane < BINADEI_PLANE_COUNT; plane++) {
        unsigned threshold = binadei_plane_threshold[plane];
        if (!binadei_word_has_run(after, threshold))
            return;
        if (!binadei_word_has_run(before, threshold))
            raise_chunk(buddy, chunk, plane);
    }
}

static void raise_page(struct binadei_buddy *buddy, binadei_page page,
                       unsigned plane)
{
    /* BS.release */
    binadei_or_acq_rel(binadei_bit_word(buddy->chunk_pages[plane], page),
                       binadei_page_bit(page));
}

void binadei_summary_raise_page(struct binadei_buddy *buddy, binadei_page page,
                                uint64_t before, uint64_t after)
{
    for (unsigned plane = 0; plane < BINADEI_PLANE_COUNT; plane++) {
        unsigned threshold = binadei_plane_threshold[plane];
        if (!binadei_word_has_run(after, threshold))
            return;
        if (!binadei_word_has_run(before, threshold))
            raise_page(buddy, page, plane);
    }
}

void binadei_summary_lower_grain_page(struct binadei_buddy *buddy,
                                      binadei_page page, unsigned plane)
{
    /* BS.acquire: what was raised before this clearing is seen below. */
    binadei_and_acq_rel(binadei_bit_word(buddy->grain_pages[plane], page),
                        ~binadei_page_bit(page));
    if (binadei_load_acquire(&buddy->chunk_summary[plane][page.index]))
        raise_grain_page(buddy, page, plane);
}

void binadei_summary_lower_chunk(struct binadei_buddy *buddy,
                                 binadei_chunk chunk, unsigned plane)
{
    binadei_page page = binadei_page_of_chunk(chunk);
    /* BS.acquire: see above. */
    binadei_and_acq_rel(&buddy->chunk_summary[plane][page.index],
                        ~(UINT64_C(1) << binadei_chunk_bit(chunk)));
    uint64_t word = binadei_load_acquire(&buddy->chunk_words[chunk.index]);
    if (binadei_word_has_run(word, binadei_plane_threshold[plane]))
        raise_chunk(buddy, chunk, plane);
}

void binadei_summary_lower_page(struct binadei_buddy *buddy, binadei_page page,
                                unsigned plane)
{
    /* BS.acquire: see above. */
    binadei_and_acq_rel(binadei_bit_word(buddy->chunk_pages[plane], page),
                        ~binadei_page_bit(page));
    uint64_t word = binadei_load_acquire(&buddy->page_words[page.index]);
    if (binadei_word_has_run(word, binadei_plane_threshold[plane]))
        raise_page(buddy, page, plane);
}
