/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Claiming one interval out of all maps of a view, word by word from its start
 * on. In each word the fresh map comes first, then the ageing one, and what is
 * done last: bits move in this order, so none passes a claim unseen. What was
 * claimed is noted with its origin; if a part turns out to be gone, all of it
 * goes back, what was done to the buddy and the rest to the stream's fresh map.
 */
#include <stdlib.h>

#include "pool/buddy/extent.h"

/* What was claimed of one map without a gap. */
struct piece {
    uint64_t start;
    uint64_t grains;
    bool is_done;
};

/* Most claims have one piece or two. */
#define FEW_PIECES 32U

struct claim {
    const struct moietyi_view *view;
    bool is_failed; /* a part is gone, or there is no memory for a note */
    uint32_t count;
    uint32_t capacity;
    struct piece *pieces; /* `few`, or what `more` has */
    struct piece *more;
    struct piece few[FEW_PIECES];
};

/* Makes room for one more; false: no memory. */
static bool reserve_piece(struct claim *claim)
{
    uint32_t capacity = 2 * claim->capacity;
    if (claim->count < claim->capacity)
        return true;
    struct piece *more = realloc(claim->more, capacity * sizeof(*more));
    if (!more)
        return false;
    if (!claim->more)
        for (uint32_t i = 0; i < claim->count; i++)
            more[i] = claim->few[i];
    claim->more = more;
    claim->pieces = more;
    claim->capacity = capacity;
    return true;
}

static struct moietyi_kind kind_of(const struct claim *claim, bool is_done)
{
    return (struct moietyi_kind){claim->view->buddy,
                                 is_done ? NULL : claim->view->maps};
}

/* Without a note in the index. */
static void claim_give_back(const struct claim *claim, bool is_done,
                            uint64_t start, uint64_t grains)
{
    const struct moietyi_view *view = claim->view;
    if (!grains)
        return;
    if (is_done) {
        (void)moietyi_give_unnoted(view->buddy, NULL, moietyi_grain_at(start),
                                   grains);
    } else {
        /* Its words are there: the units had them, and claim_within() made
         * those of the interval's ends. */
        (void)moietyi_maps_give_unnoted(view->maps, moietyi_grain_at(start),
                                        grains);
    }
}

static void undo_piece(const struct claim *claim, bool is_done, uint64_t start,
                       uint64_t grains)
{
    const struct moietyi_kind kind = kind_of(claim, is_done);
    claim_give_back(claim, is_done, start, grains);
    moietyi_index_note_around(&kind, start, start + grains);
}

/* Notes what was claimed; without memory for the note it goes back at once, and
 * the claim fails. */
static void note_piece(struct claim *claim, bool is_done, uint64_t start,
                       uint64_t grains)
{
    struct piece *last = claim->count ? &claim->pieces[claim->count - 1] : NULL;
    if (last && last->is_done == is_done &&
        last->start + last->grains == start) {
        last->grains += grains;
        return;
    }
    if (!reserve_piece(claim)) {
        undo_piece(claim, is_done, start, grains);
        claim->is_failed = true;
        return;
    }
    claim->pieces[claim->count++] = (struct piece){start, grains, is_done};
}

/* The bits of a word that were claimed, each `unit` grains. */
static void note_bits(struct claim *claim, bool is_done, uint64_t base,
                      uint64_t unit, uint64_t bits)
{
    while (bits) {
        unsigned start;
        unsigned length;
        bits &= ~moietyi_word_first_run(bits, &start, &length);
        note_piece(claim, is_done, base + start * unit, length * unit);
    }
}

static void count_off(const struct claim *claim, enum moietyi_map_age age,
                      uint64_t grains)
{
    /* relaxed: a sum. */
    atomic_fetch_sub_explicit(&claim->view->maps->grains[age], grains,
                              memory_order_relaxed);
}

/* The words of one level, in the order in which bits move: the stream's, if it
 * has any here, and the buddy's. */
struct level {
    /* Edge MW: the stream's. */
    moietyi_atomic_word *words[MOIETYI_AGES];
    /* Edge BW: the buddy's; NULL: is not to be taken. */
    moietyi_atomic_word *done;
    uint64_t base; /* grain of the first bit */
    uint64_t unit; /* grains of a bit */
};

static moietyi_atomic_word *claim_done_word(const struct claim *claim,
                                            moietyi_atomic_word *word)
{
    return claim->view->is_own_only ? NULL : word;
}

static struct level claim_pages_of(const struct claim *claim, moietyi_page page)
{
    uint32_t index = page.index / MOIETYI_WORD_BITS;
    struct moietyi_maps_group *own =
        moietyi_maps_group_at(claim->view->maps, index);
    return (struct level){
        {own ? &own->pages[MOIETYI_FRESH] : NULL,
         own ? &own->pages[MOIETYI_AGEING] : NULL},
        claim_done_word(claim, &claim->view->buddy->groups[index].free_pages),
        (uint64_t)index * MOIETYI_WORD_BITS * MOIETYI_PAGE_GRAINS,
        MOIETYI_PAGE_GRAINS};
}

static struct level chunks_of(const struct claim *claim, moietyi_page page)
{
    unsigned bit = page.index % MOIETYI_WORD_BITS;
    struct moietyi_maps_group *own = moietyi_maps_group_at(
        claim->view->maps, page.index / MOIETYI_WORD_BITS);
    return (struct level){
        {own ? &own->page[bit].chunks[MOIETYI_FRESH] : NULL,
         own ? &own->page[bit].chunks[MOIETYI_AGEING] : NULL},
        claim_done_word(claim, &claim->view->buddy->pages[page.index].word),
        (uint64_t)page.index * MOIETYI_PAGE_GRAINS,
        MOIETYI_CHUNK_GRAINS};
}

static struct level claim_grains_of(const struct claim *claim,
                                    moietyi_chunk chunk)
{
    moietyi_page page = moietyi_page_of_chunk(chunk);
    unsigned bit = moietyi_chunk_bit(chunk);
    struct moietyi_maps_group *group = moietyi_maps_group_at(
        claim->view->maps, page.index / MOIETYI_WORD_BITS);
    struct moietyi_maps_parts *own =
        group ? moietyi_maps_parts_at(group, page.index % MOIETYI_WORD_BITS)
              : NULL;
    return (struct level){
        {own ? &own->grains[bit][MOIETYI_FRESH] : NULL,
         own ? &own->grains[bit][MOIETYI_AGEING] : NULL},
        claim_done_word(claim, &claim->view->buddy->chunk_words[chunk.index]),
        chunk.index * MOIETYI_CHUNK_GRAINS,
        1};
}

/* Claims what is set of `mask`, notes it, and returns what is missing. */
static uint64_t claim_bits(struct claim *claim, const struct level *level,
                           uint64_t mask)
{
    for (unsigned age = 0; age < MOIETYI_AGES && mask; age++) {
        uint64_t bits =
            level->words[age] ? moietyi_word_claim(level->words[age], mask) : 0;
        if (!bits)
            continue;
        count_off(claim, age, moietyi_word_count(bits) * level->unit);
        note_bits(claim, false, level->base, level->unit, bits);
        mask &= ~bits;
        MOIETYI_STEP("claim.own");
    }
    uint64_t bits =
        level->done && mask ? moietyi_word_claim(level->done, mask) : 0;
    note_bits(claim, true, level->base, level->unit, bits);
    MOIETYI_STEP("claim.done");
    return mask & ~bits;
}

/* Claims a unit that is free as a whole, of which [at, end) is wanted, and gives
 * the rest back, which is noted with the sides of all that is claimed, or with
 * the piece that goes back. */
static bool claim_within(struct claim *claim, const struct level *level,
                         unsigned bit, uint64_t at, uint64_t end)
{
    uint64_t start = level->base + bit * level->unit;
    uint64_t mask = UINT64_C(1) << bit;
    for (unsigned age = 0; age <= MOIETYI_AGES; age++) {
        bool is_done = age == MOIETYI_AGES;
        moietyi_atomic_word *word = is_done ? level->done : level->words[age];
        /* relaxed: a look, so that nothing is made for memory that is done. */
        if (!word || !(moietyi_load_relaxed(word) & mask) ||
            (!is_done && !moietyi_maps_prepare(claim->view->maps,
                                               moietyi_grain_at(at), end - at)))
            continue;
        if (!moietyi_word_claim(word, mask))
            continue;
        if (!is_done)
            count_off(claim, age, level->unit);
        claim_give_back(claim, is_done, start, at - start);
        claim_give_back(claim, is_done, end, start + level->unit - end);
        note_piece(claim, is_done, at, end - at);
        return true;
    }
    return false;
}

/* Part of a chunk, or all of one whose grains are in several maps. */
static void claim_grains(struct claim *claim, moietyi_page page,
                         unsigned chunk_bit, uint64_t mask)
{
    moietyi_chunk chunk = moietyi_chunk_in_page(page, chunk_bit);
    struct level grains = claim_grains_of(claim, chunk);
    struct level chunks = chunks_of(claim, page);
    unsigned start;
    unsigned length;
    (void)moietyi_word_first_run(mask, &start, &length);
    if (mask != MOIETYI_WORD_FULL &&
        claim_within(claim, &chunks, chunk_bit, grains.base + start,
                     grains.base + start + length))
        return;
    claim->is_failed |= claim_bits(claim, &grains, mask) != 0;
}

/* [at, end) of a page, which is no free page, or not in one map. */
static void claim_in_page(struct claim *claim, moietyi_page page, unsigned at,
                          unsigned end)
{
    struct level pages = claim_pages_of(claim, page);
    struct level chunks = chunks_of(claim, page);
    bool is_part = end - at < MOIETYI_PAGE_GRAINS;
    if (is_part && claim_within(claim, &pages, page.index % MOIETYI_WORD_BITS,
                                chunks.base + at, chunks.base + end))
        return;
    struct moietyi_page_cut cut = moietyi_page_cut_at(at, end);
    uint64_t missing = cut.chunks ? claim_bits(claim, &chunks, cut.chunks) : 0;
    for (; missing && !claim->is_failed; missing &= missing - 1)
        claim_grains(claim, page, moietyi_word_lowest(missing),
                     MOIETYI_WORD_FULL);
    for (unsigned i = 0; i < cut.part_count && !claim->is_failed; i++)
        claim_grains(claim, page, cut.parts[i].chunk, cut.parts[i].grains);
}

/* Up to `count` whole pages, at least 1, of one group, from `at` on. Returns
 * where it ended. */
static uint64_t claim_pages(struct claim *claim, uint64_t at, uint64_t count)
{
    moietyi_page page = moietyi_page_of_grain(moietyi_grain_at(at));
    struct level pages = claim_pages_of(claim, page);
    unsigned first = page.index % MOIETYI_WORD_BITS;
    if (count > MOIETYI_WORD_BITS - first)
        count = MOIETYI_WORD_BITS - first;
    uint64_t missing =
        claim_bits(claim, &pages, moietyi_word_run(first, (unsigned)count));
    for (; missing && !claim->is_failed; missing &= missing - 1) {
        moietyi_page part = {page.index - first + moietyi_word_lowest(missing)};
        claim_in_page(claim, part, 0, MOIETYI_PAGE_GRAINS);
    }
    return at + count * MOIETYI_PAGE_GRAINS;
}

static void claim_all(struct claim *claim, uint64_t at, uint64_t end)
{
    while (at < end && !claim->is_failed) {
        unsigned offset = (unsigned)(at % MOIETYI_PAGE_GRAINS);
        uint64_t grains = MOIETYI_PAGE_GRAINS - offset;
        uint64_t pages = (end - at) / MOIETYI_PAGE_GRAINS;
        if (offset == 0 && pages) {
            at = claim_pages(claim, at, pages);
            continue;
        }
        if (grains > end - at)
            grains = end - at;
        claim_in_page(claim, moietyi_page_of_grain(moietyi_grain_at(at)),
                      offset, offset + (unsigned)grains);
        at += grains;
    }
}

/* What is left of a run of a kind lies beside a piece of that kind, and of a run
 * that joins kinds beside the claim. */
static void claim_note_sides(const struct claim *claim, uint64_t start,
                             uint64_t end)
{
    const struct moietyi_kind own = kind_of(claim, false);
    const struct moietyi_kind done = kind_of(claim, true);
    for (uint32_t i = 0; i < claim->count; i++) {
        const struct piece *piece = &claim->pieces[i];
        if (piece->is_done && piece->start == start)
            moietyi_index_note_left(&done, start);
        if (piece->is_done && piece->start + piece->grains == end)
            moietyi_index_note_right(&done, end);
    }
    if (own.maps)
        moietyi_index_note_sides(&own, start, end);
}

bool moietyi_view_claim(const struct moietyi_view *view, moietyi_grain start,
                        uint64_t grains)
{
    struct claim claim = {.view = view, .capacity = FEW_PIECES};
    claim.pieces = claim.few;
    claim_all(&claim, start.index, start.index + grains);
    for (uint32_t i = 0; claim.is_failed && i < claim.count; i++)
        undo_piece(&claim, claim.pieces[i].is_done, claim.pieces[i].start,
                   claim.pieces[i].grains);
    if (!claim.is_failed)
        claim_note_sides(&claim, start.index, start.index + grains);
    free(claim.more);
    return !claim.is_failed;
}
