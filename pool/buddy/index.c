/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Setting and finding bits of the index. A word that a search finds empty loses
 * its bit one level up, then is looked at again. All of it is relaxed: what is
 * lost in a race is set again when something is freed or found there next.
 */
#include "pool/buddy/extent.h"

#define LEAF_PAGES (BINADEI_LEAF_GROUPS * BINADEI_WORD_BITS)

static struct binadei_index_leaf *leaf_at(const struct binadei_kind *kind,
                                          uint32_t leaf)
{
    if (!kind->maps)
        return &kind->buddy->index_leaves[leaf];
    struct binadei_maps_leaf *own = binadei_maps_leaf_at(kind->maps, leaf);
    return own ? &own->index : NULL;
}

/* Of a group of which something is, or was, free in the kind. */
static struct binadei_index_group *group_at(const struct binadei_kind *kind,
                                            uint32_t group)
{
    if (!kind->maps)
        return &kind->buddy->groups[group].index;
    struct binadei_maps_group *own = binadei_maps_group_at(kind->maps, group);
    return own ? &own->index : NULL;
}

/* relaxed: advice. A look first: most bits are set already. */
static void set(binadei_atomic_word *word, unsigned bit)
{
    uint64_t mask = UINT64_C(1) << bit;
    if (!(binadei_load_relaxed(word) & mask))
        (void)atomic_fetch_or_explicit(word, mask, memory_order_relaxed);
}

/* Clears a bit whose word below is 0, unless it is not any more. relaxed: advice,
 * so a bit that is lost is only not found here. */
static void index_clear(binadei_atomic_word *word, unsigned bit,
                        const binadei_atomic_word *below)
{
    uint64_t mask = UINT64_C(1) << bit;
    if (!(binadei_load_relaxed(word) & mask))
        return;
    BINADEI_STEP("index.clearing");
    (void)atomic_fetch_and_explicit(word, ~mask, memory_order_relaxed);
    if (binadei_load_relaxed(below))
        set(word, bit);
}

void binadei_index_note(const struct binadei_kind *kind, uint64_t start,
                        uint64_t grains)
{
    if (grains < BINADEI_INDEX_LEAST)
        return;
    unsigned bin = binadei_index_bin(grains);
    uint32_t page = binadei_page_of_grain(binadei_grain_at(start)).index;
    uint32_t group = page / BINADEI_WORD_BITS;
    struct binadei_index_leaf *leaf = leaf_at(kind, page / LEAF_PAGES);
    struct binadei_index_group *pages = leaf ? group_at(kind, group) : NULL;
    if (!pages)
        return;
    set(&pages->pages[bin], page % BINADEI_WORD_BITS);
    set(&leaf->groups[bin], group % BINADEI_LEAF_GROUPS);
    set(&leaf->bins[bin / BINADEI_WORD_BITS], bin % BINADEI_WORD_BITS);
}

void binadei_index_note_around(const struct binadei_kind *kind, uint64_t start,
                               uint64_t end)
{
    struct binadei_run run = binadei_run_around(kind, start, end);
    binadei_index_note(kind, run.start, run.grains);
}

void binadei_index_note_left(const struct binadei_kind *kind, uint64_t start)
{
    uint64_t first = binadei_run_start(kind, start);
    binadei_index_note(kind, first, start - first);
}

void binadei_index_note_right(const struct binadei_kind *kind, uint64_t end)
{
    binadei_index_note(kind, end, binadei_run_end(kind, end) - end);
}

void binadei_index_note_sides(const struct binadei_kind *kind, uint64_t start,
                              uint64_t end)
{
    binadei_index_note_left(kind, start);
    binadei_index_note_right(kind, end);
}

static uint32_t leaf_limit(const struct binadei_kind *kind)
{
    return (binadei_page_limit(kind->buddy) + LEAF_PAGES - 1) / LEAF_PAGES;
}

/* The lowest bin that is not empty, from `bin` on; BINADEI_INDEX_BINS: none. */
static unsigned lowest_bin(const struct binadei_kind *kind, unsigned bin)
{
    unsigned lowest = BINADEI_INDEX_BINS;
    uint32_t limit = leaf_limit(kind);
    for (uint32_t i = 0; i < limit; i++) {
        const struct binadei_index_leaf *leaf = leaf_at(kind, i);
        for (unsigned at = leaf ? bin : lowest; at < lowest;) {
            uint64_t word =
                binadei_load_relaxed(&leaf->bins[at / BINADEI_WORD_BITS]) >>
                at % BINADEI_WORD_BITS;
            if (word && at + binadei_word_lowest(word) < lowest)
                lowest = at + binadei_word_lowest(word);
            at += BINADEI_WORD_BITS - at % BINADEI_WORD_BITS;
        }
    }
    return lowest;
}

/* The first page of the bin, from the place on, in a group of the leaf. */
static bool find_in_group(const struct binadei_kind *kind,
                          struct binadei_index_leaf *leaf, uint32_t group,
                          struct binadei_index_at *at)
{
    const binadei_atomic_word *word = &group_at(kind, group)->pages[at->bin];
    uint32_t first = group * BINADEI_WORD_BITS;
    /* relaxed: advice. */
    uint64_t pages = binadei_load_relaxed(word);
    if (!pages)
        index_clear(&leaf->groups[at->bin], group % BINADEI_LEAF_GROUPS, word);
    if (at->page > first)
        pages &= BINADEI_WORD_FULL << (at->page - first);
    if (pages)
        at->page = first + binadei_word_lowest(pages);
    return pages != 0;
}

static bool find_in_leaf(const struct binadei_kind *kind, uint32_t index,
                         struct binadei_index_at *at)
{
    struct binadei_index_leaf *leaf = leaf_at(kind, index);
    uint32_t first = index * LEAF_PAGES;
    uint32_t passed = at->page > first ? at->page - first : 0;
    uint64_t groups = leaf ? binadei_load_relaxed(&leaf->groups[at->bin]) : 0;
    if (leaf && !groups)
        index_clear(&leaf->bins[at->bin / BINADEI_WORD_BITS],
                    at->bin % BINADEI_WORD_BITS, &leaf->groups[at->bin]);
    groups &= BINADEI_WORD_FULL << passed / BINADEI_WORD_BITS;
    for (; groups; groups &= groups - 1) {
        uint32_t group =
            index * BINADEI_LEAF_GROUPS + binadei_word_lowest(groups);
        if (find_in_group(kind, leaf, group, at))
            return true;
    }
    return false;
}

/* The first page of the bin, from the place on. */
static bool find_page(const struct binadei_kind *kind,
                      struct binadei_index_at *at)
{
    uint32_t limit = leaf_limit(kind);
    for (uint32_t i = at->page / LEAF_PAGES; i < limit; i++)
        if (find_in_leaf(kind, i, at))
            return true;
    return false;
}

bool binadei_index_find(const struct binadei_kind *kind,
                        struct binadei_index_at *at)
{
    while (at->bin < BINADEI_INDEX_BINS) {
        if (find_page(kind, at))
            return true;
        at->bin = lowest_bin(kind, at->bin + 1);
        at->page = 0;
    }
    return false;
}

bool binadei_index_take(const struct binadei_kind *kind,
                        const struct binadei_index_at *at)
{
    uint64_t bit = UINT64_C(1) << at->page % BINADEI_WORD_BITS;
    struct binadei_index_group *index =
        group_at(kind, at->page / BINADEI_WORD_BITS);
    return atomic_fetch_and_explicit(&index->pages[at->bin], ~bit,
                                     memory_order_relaxed) &
           bit;
}
