/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The words of a stream's maps, and how all maps of a view are read as one. For
 * the files of this folder only.
 */
#ifndef MOIETY_POOL_BUDDY_MAP_STATE_H_
#define MOIETY_POOL_BUDDY_MAP_STATE_H_

#include <stdalign.h>

#include "pool/buddy/map.h"
#include "pool/buddy/state.h"

/* A word is of one map; those of both maps lie side by side, as whoever frees or
 * claims a run reads both at its two ends, and misses the caches there. A word of
 * chunks or grains is 0 both while its unit is free as a whole (the bit above says
 * so) and while nothing of it is free in this map. Edge MW: give and move
 * (seq_cst) -> claim (acquire), on every word of the three levels. A bit set = a
 * unit free in this map. Edge MH: a hint is set after the word below by order of
 * seq_cst; cleared, then what is below looked at again, by the same order. A bit
 * that is clear while something below is set is set by the thread that set that.
 */

/* The grains of one page, in both maps, so that what moves from one to the other
 * needs no memory. Edge MW. Edge MH: the second look. */
struct moietyi_maps_parts {
    moietyi_atomic_word grains[MOIETYI_PAGE_CHUNKS][MOIETYI_AGES];
};

/* Of one page, on a line of its own. */
struct moietyi_maps_page {
    alignas(64) moietyi_atomic_word chunks[MOIETYI_AGES]; /* Edge MW */
    moietyi_atomic_word cut[MOIETYI_AGES]; /* Edge MH: chunks with grains */
    /* Edge MG: made (release) -> used (acquire). struct moietyi_maps_parts, once
     * parts of chunks were given. */
    _Atomic(void *) parts;
};

/* Of 64 pages. */
struct moietyi_maps_group {
    moietyi_atomic_word pages[MOIETYI_AGES]; /* Edge MW */
    /* Edge MH: pages that have chunks or grains. */
    moietyi_atomic_word open[MOIETYI_AGES];
    struct moietyi_maps_page page[MOIETYI_WORD_BITS];
    /* Of what both maps together have. */
    struct moietyi_index_group index;
};

struct moietyi_maps_leaf {
    /* Edge MG. struct moietyi_maps_group. */
    _Atomic(void *) groups[MOIETYI_LEAF_GROUPS];
    struct moietyi_index_leaf index;
};

struct moietyi_maps {
    struct moietyi_buddy *buddy;
    uint32_t leaf_count;
    /* Edge: none; relaxed, sums. Added before the bits are set and taken off
     * after they were cleared, so that 0 at rest is 0. */
    _Atomic uint64_t grains[MOIETYI_AGES];
    /* Edge: none; relaxed, a hint: where a search found something last. */
    _Atomic uint32_t last_group;
    /* Edge MG. struct moietyi_maps_leaf. */
    _Atomic(void *) leaves[];
};

/* The leaf, or the group, or NULL where the stream has freed nothing yet. */
static inline struct moietyi_maps_leaf *
moietyi_maps_leaf_at(const struct moietyi_maps *maps, uint32_t leaf)
{
    /* MG.acquire: the words were zeroed. */
    return maps && leaf < maps->leaf_count
               ? atomic_load_explicit(&maps->leaves[leaf], memory_order_acquire)
               : NULL;
}

static inline struct moietyi_maps_group *
moietyi_maps_group_at(const struct moietyi_maps *maps, uint32_t group)
{
    struct moietyi_maps_leaf *leaf =
        moietyi_maps_leaf_at(maps, group / MOIETYI_LEAF_GROUPS);
    /* MG.acquire: as above. */
    return leaf ? atomic_load_explicit(
                      &leaf->groups[group % MOIETYI_LEAF_GROUPS],
                      memory_order_acquire)
                : NULL;
}

static inline struct moietyi_maps_parts *
moietyi_maps_parts_at(const struct moietyi_maps_group *group, unsigned page_bit)
{
    /* MG.acquire. */
    return atomic_load_explicit(&group->page[page_bit].parts,
                                memory_order_acquire);
}

/* Makes what the maps need for these grains to be set in them. False: no
 * memory. map.c */
bool moietyi_maps_prepare(struct moietyi_maps *maps, moietyi_grain start,
                          uint64_t grains);

/* moietyi_maps_give(), but for the note in the index. map.c */
enum moietyi_map_give moietyi_maps_give_unnoted(struct moietyi_maps *maps,
                                                moietyi_grain start,
                                                uint64_t grains);

/* An interval of one page, cut at the borders of chunks. */
struct moietyi_page_cut {
    uint64_t chunks; /* whole ones */
    unsigned part_count;
    struct {
        unsigned chunk;
        uint64_t grains;
    } parts[2]; /* of chunks, at its ends */
};

/* Of the grains [at, end) of a page. */
static inline struct moietyi_page_cut moietyi_page_cut_at(unsigned at,
                                                          unsigned end)
{
    struct moietyi_page_cut cut = {0};
    while (at < end) {
        unsigned bit = at % MOIETYI_CHUNK_GRAINS;
        unsigned chunk = at / MOIETYI_CHUNK_GRAINS;
        unsigned units = end - at;
        if (bit == 0 && units >= MOIETYI_CHUNK_GRAINS) {
            units /= MOIETYI_CHUNK_GRAINS;
            cut.chunks = moietyi_word_run(chunk, units);
            at += units * MOIETYI_CHUNK_GRAINS;
            continue;
        }
        if (units > MOIETYI_CHUNK_GRAINS - bit)
            units = MOIETYI_CHUNK_GRAINS - bit;
        cut.parts[cut.part_count].chunk = chunk;
        cut.parts[cut.part_count++].grains = moietyi_word_run(bit, units);
        at += units;
    }
    return cut;
}

/* Sets a bit of a hint that is clear; before, the word below was set. */
static inline void moietyi_map_hint(moietyi_atomic_word *hint, uint64_t bit)
{
    /* MH: after the change of what lies below, by order of seq_cst. */
    if (!(moietyi_load_seq_cst(hint) & bit))
        (void)moietyi_or_seq_cst(hint, bit);
}

/* The run of set bits that begins at the lowest one. */
static inline uint64_t
moietyi_word_first_run(uint64_t word, unsigned *out_start, unsigned *out_length)
{
    *out_start = moietyi_word_lowest(word);
    uint64_t clear = ~(word >> *out_start);
    *out_length = clear ? moietyi_word_lowest(clear) : MOIETYI_WORD_BITS;
    return moietyi_word_run(*out_start, *out_length);
}

/* Clears the bits of `mask` in a word, those of them that are set, and returns
 * which these were. */
static inline uint64_t moietyi_word_claim(moietyi_atomic_word *word,
                                          uint64_t mask)
{
    /* relaxed: a look; a word without any is left alone. */
    if (!(moietyi_load_relaxed(word) & mask))
        return 0;
    /* BW.acquire, MW.acquire: the last owners' use of the units is over, or
     * ordered before the stream's next work. */
    return atomic_fetch_and_explicit(word, ~mask, memory_order_acquire) & mask;
}

#endif
