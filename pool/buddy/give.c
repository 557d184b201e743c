/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The one way to give memory back. An interval is cut at chunk and page
 * borders; each part is one compare-and-swap on one word, from the bottom up.
 * The swap that fills a word clears it instead and sets the bit of its unit in
 * the level above: the thread that fills a word coalesces it, so a merge
 * happens exactly once.
 */
#include "pool/buddy/extent.h"

/* Hysteresis: the word that its own searcher took from last stays open when it
 * fills, since that searcher will want it again. */
static bool stays_open_chunk(const struct moietyi_affinity *affinity,
                             moietyi_chunk chunk)
{
    return affinity && affinity->chunk_plus_one == chunk.index + 1;
}

static bool stays_open_page(const struct moietyi_affinity *affinity,
                            moietyi_page page)
{
    return affinity && affinity->pages_plus_one[0] == page.index + 1;
}

/* What a give did to one word. */
struct filling {
    uint64_t before;
    uint64_t after;
    bool is_given;     /* false: part of it was free already, nothing changed */
    bool is_coalesced; /* it was full and is 0 now */
};

static struct filling buddy_fill(moietyi_atomic_word *word, uint64_t mask,
                                 bool coalesces)
{
    /* relaxed: only the start of the loop. */
    struct filling filling = {.before = moietyi_load_relaxed(word)};
    uint64_t filled;
    do {
        if (filling.before & mask)
            return (struct filling){0};
        filled = filling.before | mask;
        filling.is_coalesced = filled == MOIETYI_WORD_FULL && coalesces;
        filling.after = filling.is_coalesced ? 0 : filled;
        MOIETYI_STEP("give.picked");
        /* BW.release: our last use of the units comes before their next owner's
         * first. BW.acquire: who coalesces the word passes on, one level up,
         * what all earlier givers of it released. BS: before the looks at the
         * summaries, by order of seq_cst. */
    } while (!moietyi_cas_seq_cst(word, &filling.before, filling.after));
    filling.is_given = true;
    return filling;
}

bool moietyi_give_chunks(struct moietyi_buddy *buddy,
                         const struct moietyi_affinity *affinity,
                         moietyi_page page, uint64_t mask)
{
    struct filling filling = buddy_fill(&buddy->pages[page.index].word, mask,
                                        !stays_open_page(affinity, page));
    if (filling.is_coalesced) {
        MOIETYI_STEP("give.page_coalesced");
        return moietyi_give_pages(buddy, page.index / MOIETYI_WORD_BITS,
                                  moietyi_page_bit(page));
    }
    MOIETYI_STEP("give.page_given");
    if (filling.is_given)
        moietyi_summary_raise_page(buddy, page, filling.before, filling.after);
    return filling.is_given;
}

/* This level is flat: its words are never coalesced. */
bool moietyi_give_pages(struct moietyi_buddy *buddy, uint32_t word_index,
                        uint64_t mask)
{
    return buddy_fill(&buddy->groups[word_index].free_pages, mask, false)
        .is_given;
}

/* Part of a chunk. Where that fills the word, it is coalesced and its bit is
 * added to `coalesced`, to be given one level up. */
static bool give_grains(struct moietyi_buddy *buddy,
                        const struct moietyi_affinity *affinity,
                        moietyi_chunk chunk, uint64_t mask, uint64_t *coalesced)
{
    struct filling filling = buddy_fill(&buddy->chunk_words[chunk.index], mask,
                                        !stays_open_chunk(affinity, chunk));
    if (filling.is_coalesced) {
        *coalesced |= UINT64_C(1) << moietyi_chunk_bit(chunk);
        MOIETYI_STEP("give.chunk_coalesced");
        return true;
    }
    MOIETYI_STEP("give.chunk_given");
    if (filling.is_given)
        moietyi_summary_raise_chunk(buddy, chunk, filling.before,
                                    filling.after);
    return filling.is_given;
}

bool moietyi_give_grains(struct moietyi_buddy *buddy, moietyi_chunk chunk,
                         uint64_t mask)
{
    uint64_t coalesced = 0;
    moietyi_page page = moietyi_page_of_chunk(chunk);
    return give_grains(buddy, NULL, chunk, mask, &coalesced) &&
           (!coalesced || moietyi_give_chunks(buddy, NULL, page, coalesced));
}

/* Chunks of one page: none, some, or the page. */
static bool give_mask(struct moietyi_buddy *buddy,
                      const struct moietyi_affinity *affinity,
                      moietyi_page page, uint64_t mask)
{
    if (mask == 0)
        return true;
    return mask == MOIETYI_WORD_FULL
               ? moietyi_give_pages(buddy, page.index / MOIETYI_WORD_BITS,
                                    moietyi_page_bit(page))
               : moietyi_give_chunks(buddy, affinity, page, mask);
}

/* Grains [at, end) of one page: the parts of chunks at both ends; then, by one
 * swap, the whole chunks between them and those that the parts have filled. */
static bool buddy_give_in_page(struct moietyi_buddy *buddy,
                               const struct moietyi_affinity *affinity,
                               moietyi_page page, unsigned at, unsigned end)
{
    uint64_t whole = 0;
    uint64_t coalesced = 0;
    bool is_given = true;
    while (at < end && is_given) {
        unsigned first = at / MOIETYI_CHUNK_GRAINS;
        unsigned bit = at % MOIETYI_CHUNK_GRAINS;
        unsigned units = end - at;
        if (bit == 0 && units >= MOIETYI_CHUNK_GRAINS) {
            unsigned count = units / MOIETYI_CHUNK_GRAINS;
            whole = moietyi_word_run(first, count);
            at += count * MOIETYI_CHUNK_GRAINS;
            continue;
        }
        if (units > MOIETYI_CHUNK_GRAINS - bit)
            units = MOIETYI_CHUNK_GRAINS - bit;
        is_given =
            give_grains(buddy, affinity, moietyi_chunk_in_page(page, first),
                        moietyi_word_run(bit, units), &coalesced);
        at += units;
    }
    if (give_mask(buddy, affinity, page, whole | coalesced))
        return is_given;
    /* A whole chunk was free already; what was coalesced is not. */
    (void)give_mask(buddy, affinity, page, coalesced);
    return false;
}

bool moietyi_give_unnoted(struct moietyi_buddy *buddy,
                          const struct moietyi_affinity *affinity,
                          moietyi_grain start, uint64_t grains)
{
    unsigned bit = moietyi_grain_bit(start);
    moietyi_page page = moietyi_page_of_grain(start);
    /* Most intervals are part of one chunk. */
    if (grains && grains < MOIETYI_CHUNK_GRAINS &&
        bit + grains <= MOIETYI_CHUNK_GRAINS) {
        uint64_t coalesced = 0;
        return give_grains(buddy, affinity, moietyi_chunk_of_grain(start),
                           moietyi_word_run(bit, (unsigned)grains),
                           &coalesced) &&
               (!coalesced ||
                moietyi_give_chunks(buddy, affinity, page, coalesced));
    }
    unsigned at = (unsigned)(start.index % MOIETYI_PAGE_GRAINS);
    for (; grains; page.index++, at = 0) {
        uint64_t room = MOIETYI_PAGE_GRAINS - at;
        unsigned units = (unsigned)(grains < room ? grains : room);
        if (!buddy_give_in_page(buddy, affinity, page, at, at + units))
            return false;
        grains -= units;
    }
    return true;
}

bool moietyi_buddy_give(struct moietyi_buddy *buddy,
                        const struct moietyi_affinity *affinity,
                        moietyi_grain start, uint64_t grains)
{
    const struct moietyi_kind done = {buddy, NULL};
    if (!moietyi_give_unnoted(buddy, affinity, start, grains))
        return false;
    moietyi_index_note_around(&done, start.index, start.index + grains);
    return true;
}

/* Closing the words that hysteresis left open. A word that is all ones goes to
 * zero by one compare-and-swap, and whoever made that swap sets the bit above,
 * exactly as the give that filled it would have done. */

static bool close_word(moietyi_atomic_word *word)
{
    uint64_t full = MOIETYI_WORD_FULL;
    /* relaxed: a first look. A weak swap that fails by itself is tried again
     * while the word is full. */
    while (moietyi_load_relaxed(word) == MOIETYI_WORD_FULL) {
        /* BW, both ends: as in a give. */
        if (moietyi_cas_acq_rel(word, &full, 0)) {
            MOIETYI_STEP("trim.closed");
            return true;
        }
        full = MOIETYI_WORD_FULL;
    }
    return false;
}

void moietyi_close_chunk(struct moietyi_buddy *buddy,
                         const struct moietyi_affinity *affinity,
                         moietyi_chunk chunk)
{
    if (close_word(&buddy->chunk_words[chunk.index]))
        (void)moietyi_give_chunks(buddy, affinity, moietyi_page_of_chunk(chunk),
                                  UINT64_C(1) << moietyi_chunk_bit(chunk));
}

void moietyi_close_page(struct moietyi_buddy *buddy, moietyi_page page)
{
    if (close_word(&buddy->pages[page.index].word))
        (void)moietyi_give_pages(buddy, page.index / MOIETYI_WORD_BITS,
                                 moietyi_page_bit(page));
}

/* Those that may be full. */
static void trim_chunks(struct moietyi_buddy *buddy, moietyi_page page)
{
    const struct moietyi_page_state *state = &buddy->pages[page.index];
    /* relaxed: see moietyi_buddy_trim(). */
    uint64_t chunks =
        moietyi_load_relaxed(&state->chunk_summary[MOIETYI_PLANE_LONG]);
    for (; chunks; chunks &= chunks - 1)
        moietyi_close_chunk(
            buddy, NULL,
            moietyi_chunk_in_page(page, moietyi_word_lowest(chunks)));
}

/* A full word is in the plane of the longest runs: the summaries lead to all that
 * are open. relaxed: whoever must not miss one has seen its giver's end. */
void moietyi_buddy_trim(struct moietyi_buddy *buddy)
{
    uint32_t groups = moietyi_page_word_limit(buddy);
    for (uint32_t i = 0; i < groups; i++) {
        const struct moietyi_group_state *group = &buddy->groups[i];
        uint64_t pages =
            moietyi_load_relaxed(&group->grain_pages[MOIETYI_PLANE_LONG]);
        for (; pages; pages &= pages - 1)
            trim_chunks(buddy, moietyi_lowest_page(i, pages));
        pages = moietyi_load_relaxed(&group->chunk_pages[MOIETYI_PLANE_LONG]);
        for (; pages; pages &= pages - 1)
            moietyi_close_page(buddy, moietyi_lowest_page(i, pages));
    }
}
