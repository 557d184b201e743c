/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Setting and finding bits of the index. A word that a search finds empty loses
 * its bit one level up, then is looked at again. All of it is relaxed: what is
 * lost in a race is set again when something is freed or found there next.
 */
#include "pool/buddy/extent.h"

#define LEAF_PAGES (MOIETYI_LEAF_GROUPS * MOIETYI_WORD_BITS)

static struct moietyi_index_leaf *leaf_at(const struct moietyi_kind *kind,
                                          uint32_t leaf)
{
    if (!kind->maps)
        return &kind->buddy->index_leaves[leaf];
    struct moietyi_maps_leaf *own = moietyi_maps_leaf_at(kind->maps, leaf);
    return own ? &own->index : NULL;
}

/* Of a group of which something is, or was, free in the kind. */
static struct moietyi_index_group *group_at(const struct moietyi_kind *kind,
                                            uint32_t group)
{
    if (!kind->maps)
        return &kind->buddy->groups[group].index;
    struct moietyi_maps_group *own = moietyi_maps_group_at(kind->maps, group);
    return own ? &own->index : NULL;
}

/* relaxed: advice. A look first: most bits are set already. */
static void set(moietyi_atomic_word *word, unsigned bit)
{
    uint64_t mask = UINT64_C(1) << bit;
    if (!(moietyi_load_relaxed(word) & mask))
        (void)atomic_fetch_or_explicit(word, mask, memory_order_relaxed);
}

/* Clears a bit whose word below is 0, unless it is not any more. relaxed: advice,
 * so a bit that is lost is only not found here. */
static void index_clear(moietyi_atomic_word *word, unsigned bit,
                        const moietyi_atomic_word *below)
{
    uint64_t mask = UINT64_C(1) << bit;
    if (!(moietyi_load_relaxed(word) & mask))
        return;
    MOIETYI_STEP("index.clearing");
    (void)atomic_fetch_and_explicit(word, ~mask, memory_order_relaxed);
    if (moietyi_load_relaxed(below))
        set(word, bit);
}

void moietyi_index_note(const struct moietyi_kind *kind, uint64_t start,
                        uint64_t grains)
{
    if (grains < MOIETYI_INDEX_LEAST)
        return;
    unsigned bin = moietyi_index_bin(grains);
    uint32_t page = moietyi_page_of_grain(moietyi_grain_at(start)).index;
    uint32_t group = page / MOIETYI_WORD_BITS;
    struct moietyi_index_leaf *leaf = leaf_at(kind, page / LEAF_PAGES);
    struct moietyi_index_group *pages = leaf ? group_at(kind, group) : NULL;
    if (!pages)
        return;
    set(&pages->pages[bin], page % MOIETYI_WORD_BITS);
    set(&leaf->groups[bin], group % MOIETYI_LEAF_GROUPS);
    set(&leaf->bins[bin / MOIETYI_WORD_BITS], bin % MOIETYI_WORD_BITS);
}

void moietyi_index_note_around(const struct moietyi_kind *kind, uint64_t start,
                               uint64_t end)
{
    struct moietyi_run run = moietyi_run_around(kind, start, end);
    moietyi_index_note(kind, run.start, run.grains);
}

void moietyi_index_note_left(const struct moietyi_kind *kind, uint64_t start)
{
    uint64_t first = moietyi_run_start(kind, start);
    moietyi_index_note(kind, first, start - first);
}

void moietyi_index_note_right(const struct moietyi_kind *kind, uint64_t end)
{
    moietyi_index_note(kind, end, moietyi_run_end(kind, end) - end);
}

void moietyi_index_note_sides(const struct moietyi_kind *kind, uint64_t start,
                              uint64_t end)
{
    moietyi_index_note_left(kind, start);
    moietyi_index_note_right(kind, end);
}

static uint32_t leaf_limit(const struct moietyi_kind *kind)
{
    return (moietyi_page_limit(kind->buddy) + LEAF_PAGES - 1) / LEAF_PAGES;
}

/* The lowest bin that is not empty, from `bin` on; MOIETYI_INDEX_BINS: none. */
static unsigned lowest_bin(const struct moietyi_kind *kind, unsigned bin)
{
    unsigned lowest = MOIETYI_INDEX_BINS;
    uint32_t limit = leaf_limit(kind);
    for (uint32_t i = 0; i < limit; i++) {
        const struct moietyi_index_leaf *leaf = leaf_at(kind, i);
        for (unsigned at = leaf ? bin : lowest; at < lowest;) {
            uint64_t word =
                moietyi_load_relaxed(&leaf->bins[at / MOIETYI_WORD_BITS]) >>
                at % MOIETYI_WORD_BITS;
            if (word && at + moietyi_word_lowest(word) < lowest)
                lowest = at + moietyi_word_lowest(word);
            at += MOIETYI_WORD_BITS - at % MOIETYI_WORD_BITS;
        }
    }
    return lowest;
}

/* The first page of the bin, from the place on, in a group of the leaf. */
static bool find_in_group(const struct moietyi_kind *kind,
                          struct moietyi_index_leaf *leaf, uint32_t group,
                          struct moietyi_index_at *at)
{
    const moietyi_atomic_word *word = &group_at(kind, group)->pages[at->bin];
    uint32_t first = group * MOIETYI_WORD_BITS;
    /* relaxed: advice. */
    uint64_t pages = moietyi_load_relaxed(word);
    if (!pages)
        index_clear(&leaf->groups[at->bin], group % MOIETYI_LEAF_GROUPS, word);
    if (at->page > first)
        pages &= MOIETYI_WORD_FULL << (at->page - first);
    if (pages)
        at->page = first + moietyi_word_lowest(pages);
    return pages != 0;
}

static bool find_in_leaf(const struct moietyi_kind *kind, uint32_t index,
                         struct moietyi_index_at *at)
{
    struct moietyi_index_leaf *leaf = leaf_at(kind, index);
    uint32_t first = index * LEAF_PAGES;
    uint32_t passed = at->page > first ? at->page - first : 0;
    uint64_t groups = leaf ? moietyi_load_relaxed(&leaf->groups[at->bin]) : 0;
    if (leaf && !groups)
        index_clear(&leaf->bins[at->bin / MOIETYI_WORD_BITS],
                    at->bin % MOIETYI_WORD_BITS, &leaf->groups[at->bin]);
    groups &= MOIETYI_WORD_FULL << passed / MOIETYI_WORD_BITS;
    for (; groups; groups &= groups - 1) {
        uint32_t group =
            index * MOIETYI_LEAF_GROUPS + moietyi_word_lowest(groups);
        if (find_in_group(kind, leaf, group, at))
            return true;
    }
    return false;
}

/* The first page of the bin, from the place on. */
static bool find_page(const struct moietyi_kind *kind,
                      struct moietyi_index_at *at)
{
    uint32_t limit = leaf_limit(kind);
    for (uint32_t i = at->page / LEAF_PAGES; i < limit; i++)
        if (find_in_leaf(kind, i, at))
            return true;
    return false;
}

bool moietyi_index_find(const struct moietyi_kind *kind,
                        struct moietyi_index_at *at)
{
    while (at->bin < MOIETYI_INDEX_BINS) {
        if (find_page(kind, at))
            return true;
        at->bin = lowest_bin(kind, at->bin + 1);
        at->page = 0;
    }
    return false;
}

bool moietyi_index_take(const struct moietyi_kind *kind,
                        const struct moietyi_index_at *at)
{
    uint64_t bit = UINT64_C(1) << at->page % MOIETYI_WORD_BITS;
    struct moietyi_index_group *index =
        group_at(kind, at->page / MOIETYI_WORD_BITS);
    return atomic_fetch_and_explicit(&index->pages[at->bin], ~bit,
                                     memory_order_relaxed) &
           bit;
}
