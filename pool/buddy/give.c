/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The one way to give memory back. An interval is cut at chunk and page
 * borders; each part is one compare-and-swap on one word, from the bottom up.
 * The swap that fills a word clears it instead and sets the bit of its unit in
 * the level above: whoever fills a word retires it, so a merge happens exactly
 * once.
 */
#include "pool/buddy/state.h"

/* Hysteresis: the word that its own searcher took from last stays open when it
 * fills, since that searcher will want it again. */
static bool stays_open_chunk(const struct binadei_home *home,
                             binadei_chunk chunk)
{
    return home && home->chunk_plus_one == chunk.index + 1;
}

static bool stays_open_page(const struct binadei_home *home, binadei_page page)
{
    return home && home->page_plus_one == page.index + 1;
}

/* What a give did to one word. */
struct filling {
    uint64_t before;
    uint64_t after;
    bool is_given;   /* false: part of it was free already, nothing changed */
    bool is_retired; /* it was full and is 0 now */
};

static struct filling fill(binadei_atomic_word *word, uint64_t mask,
                           bool retires)
{
    /* relaxed: only the start of the loop. */
    struct filling filling = {.before = binadei_load_relaxed(word)};
    uint64_t filled;
    do {
        if (filling.before & mask)
            return (struct filling){0};
        filled = filling.before | mask;
        filling.is_retired = filled == BINADEI_WORD_FULL && retires;
        filling.after = filling.is_retired ? 0 : filled;
        /* BW.release: our last use of the units comes before their next
         * owner's first. BW.acquire: who retires the word passes on, one level
         * up, what all earlier givers of it released. */
    } while (!binadei_cas_acq_rel(word, &filling.before, filling.after));
    filling.is_given = true;
    return filling;
}

bool binadei_give_grains(struct binadei_buddy *buddy,
                         const struct binadei_home *home, binadei_chunk chunk,
                         uint64_t mask)
{
    struct filling filling = fill(&buddy->chunk_words[chunk.index], mask,
                                  !stays_open_chunk(home, chunk));
    if (filling.is_retired)
        return binadei_give_chunks(buddy, home, binadei_page_of_chunk(chunk),
                                   UINT64_C(1) << binadei_chunk_bit(chunk));
    if (filling.is_given)
        binadei_summary_raise_chunk(buddy, chunk, filling.before,
                                    filling.after);
    return filling.is_given;
}

bool binadei_give_chunks(struct binadei_buddy *buddy,
                         const struct binadei_home *home, binadei_page page,
                         uint64_t mask)
{
    struct filling filling = fill(&buddy->page_words[page.index], mask,
                                  !stays_open_page(home, page));
    if (filling.is_retired)
        return binadei_give_pages(buddy, page.index / BINADEI_WORD_BITS,
                                  binadei_page_bit(page));
    if (filling.is_given)
        binadei_summary_raise_page(buddy, page, filling.before, filling.after);
    return filling.is_given;
}

/* This level is flat: its words are never retired. */
bool binadei_give_pages(struct binadei_buddy *buddy, uint32_t word_index,
                        uint64_t mask)
{
    return fill(&buddy->free_pages[word_index], mask, false).is_given;
}

/* Whole chunks from `first` on, `count` of them, page by page. */
static bool give_whole_chunks(struct binadei_buddy *buddy,
                              const struct binadei_home *home,
                              binadei_chunk first, uint64_t count)
{
    while (count) {
        unsigned bit = binadei_chunk_bit(first);
        uint64_t room = BINADEI_PAGE_CHUNKS - bit;
        unsigned units = (unsigned)(count < room ? count : room);
        binadei_page page = binadei_page_of_chunk(first);
        bool is_given =
            units == BINADEI_PAGE_CHUNKS
                ? binadei_give_pages(buddy, page.index / BINADEI_WORD_BITS,
                                     binadei_page_bit(page))
                : binadei_give_chunks(buddy, home, page,
                                      binadei_word_run(bit, units));
        if (!is_given)
            return false;
        first.index += units;
        count -= units;
    }
    return true;
}

bool binadei_buddy_give(struct binadei_buddy *buddy,
                        const struct binadei_home *home, binadei_grain start,
                        uint64_t grains)
{
    unsigned bit = binadei_grain_bit(start);
    binadei_chunk chunk = binadei_chunk_of_grain(start);
    if (bit && grains) {
        uint64_t room = BINADEI_CHUNK_GRAINS - bit;
        unsigned units = (unsigned)(grains < room ? grains : room);
        if (!binadei_give_grains(buddy, home, chunk,
                                 binadei_word_run(bit, units)))
            return false;
        grains -= units;
        chunk.index++;
    }
    uint64_t whole = grains / BINADEI_CHUNK_GRAINS;
    unsigned tail = (unsigned)(grains % BINADEI_CHUNK_GRAINS);
    if (!give_whole_chunks(buddy, home, chunk, whole))
        return false;
    chunk.index += whole;
    return tail == 0 ||
           binadei_give_grains(buddy, home, chunk, binadei_word_run(0, tail));
}
