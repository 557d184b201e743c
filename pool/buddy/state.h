/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The words of a buddy, for the files of this folder only.
 */
#ifndef MOIETY_POOL_BUDDY_STATE_H_
#define MOIETY_POOL_BUDDY_STATE_H_

#include <pthread.h>
#include <stdalign.h>

#include "pool/base/atomics.h"
#include "pool/base/step.h"
#include "pool/buddy/buddy.h"
#include "pool/buddy/index.h"
#include "pool/buddy/word.h"

/* A summary plane says of each word whether it may hold a free run of at least
 * its threshold. Without planes a search among short holes visits them all. */
#define MOIETYI_PLANE_COUNT 3U
#define MOIETYI_PLANE_ANY 0U
#define MOIETYI_PLANE_LONG 2U
static const unsigned moietyi_plane_threshold[MOIETYI_PLANE_COUNT] = {1, 8, 32};

/* What belongs to one page, on a line of its own: a page is mostly one
 * searcher's affinity, and its neighbours are others'. */
struct moietyi_page_state {
    /* Edges BW and BS: see below. */
    alignas(64) moietyi_atomic_word word; /* chunks of the page */
    /* Edge BS: see below. A word a plane: chunks that may have such a run. */
    moietyi_atomic_word chunk_summary[MOIETYI_PLANE_COUNT];
    /* Edge: none; relaxed. Whose affinity the page is; 0: nobody's, or it was
     * and has been forgotten. A hint. */
    _Atomic uint32_t affinity_id;
};

/* What belongs to 64 pages, a bit each. */
struct moietyi_group_state {
    /* Edge BW: see below. Pages; flat, there is no level above. On a line with
     * what else changes when a page changes hands. */
    alignas(64) moietyi_atomic_word free_pages;
    /* Edge: none; relaxed. Pages that are somebody's affinity: others prefer
     * not to search there, nothing depends on it. */
    moietyi_atomic_word affinities;

    /* Edge BS: see below. Pages with chunks or grains for each plane. A line
     * that is mostly read. */
    alignas(64) moietyi_atomic_word chunk_pages[MOIETYI_PLANE_COUNT];
    moietyi_atomic_word grain_pages[MOIETYI_PLANE_COUNT];

    alignas(64) struct moietyi_index_group index;
};

struct moietyi_buddy {
    uint32_t page_capacity;
    size_t map_bytes;
    void *map;

    /* Edge BP: add (release) -> any search (acquire). One past the highest page
     * ever added; only grows. */
    moietyi_atomic_word page_limit;

    /* Edge BW: give (acq_rel) -> take (acquire), on every word of the three
     * levels. Edge BS: the change of a word, and the second look at it. A bit
     * set = a unit free. A chunk or page word is 0 while its unit is free or
     * taken whole in the level above, and never all ones, except where
     * hysteresis leaves a searcher's own word open. */
    moietyi_atomic_word *chunk_words; /* grains of each chunk */

    /* Edge BS, in summaries: raise (look at the bit) and lower (clearing, then a
     * second look), all seq_cst, with the words of BW below. Hints: a set bit
     * says "may". A bit that is clear while its word has such a run is set by
     * whoever made the run, after the word. */
    struct moietyi_page_state *pages;
    struct moietyi_group_state *groups;
    struct moietyi_index_leaf *index_leaves;

    /* Edge: none; relaxed. Written by the holder of the interval, which got it
     * over BW and gives it back over BW. */
    _Atomic uint8_t *classes; /* a byte a grain */
    /* Edge: none; relaxed, as above. Of the run that starts in a chunk: there is
     * one at most, as a run is longer than a chunk. */
    _Atomic uint32_t *run_grains;

    /* Edge: none; relaxed. Affinities that were given an id. */
    _Atomic uint32_t affinity_count;

    /* All searches read what is above, so what changes is on another line. */
    char apart[64];
    /* Guards no data: one searcher for runs of pages at a time, so that two do
     * not each take half of what the other needs. */
    pthread_mutex_t run_lock;
    /* Edge: none; relaxed, advice. Searches of a view that have, or wait for,
     * the run lock. */
    atomic_uint contended_runs;
};

static inline struct moietyi_group_state *
moietyi_group_of(const struct moietyi_buddy *buddy, moietyi_page page)
{
    return &buddy->groups[page.index / MOIETYI_WORD_BITS];
}

static inline uint64_t moietyi_page_bit(moietyi_page page)
{
    return UINT64_C(1) << page.index % MOIETYI_WORD_BITS;
}

/* Of the pages in a word of a group, the lowest. */
static inline moietyi_page moietyi_lowest_page(uint32_t group, uint64_t pages)
{
    return (moietyi_page){group * MOIETYI_WORD_BITS +
                          moietyi_word_lowest(pages)};
}

/* One past the highest page; and the number of words that cover them. */
static inline uint32_t moietyi_page_limit(const struct moietyi_buddy *buddy)
{
    /* BP.acquire */
    return (uint32_t)moietyi_load_acquire(&buddy->page_limit);
}

static inline uint32_t
moietyi_page_word_limit(const struct moietyi_buddy *buddy)
{
    return (moietyi_page_limit(buddy) + MOIETYI_WORD_BITS - 1) /
           MOIETYI_WORD_BITS;
}

/* The plane to search for runs of `length` units: the highest threshold that
 * such a run reaches. */
static inline unsigned moietyi_plane_for(unsigned length)
{
    return length >= 32  ? MOIETYI_PLANE_LONG
           : length >= 8 ? 1U
                         : MOIETYI_PLANE_ANY;
}

/* The planes whose thresholds `word` reaches, a bit each. Without branches:
 * which of them it is cannot be predicted. */
static inline unsigned moietyi_planes_of(uint64_t word)
{
    uint64_t runs8 = word & word >> 1;
    runs8 &= runs8 >> 2;
    runs8 &= runs8 >> 4;
    uint64_t runs32 = runs8 & runs8 >> 8;
    runs32 &= runs32 >> 16;
    return (unsigned)(word != 0) | (unsigned)(runs8 != 0) << 1 |
           (unsigned)(runs32 != 0) << 2;
}

static inline bool moietyi_is_in_plane(uint64_t word, unsigned plane)
{
    return moietyi_planes_of(word) >> plane & 1;
}

/* summary.c: raise after `before` became `after`; lower after a search found
 * no run of the plane's threshold, in all chunks of `mask`. */
void moietyi_summary_raise_chunk(struct moietyi_buddy *buddy,
                                 moietyi_chunk chunk, uint64_t before,
                                 uint64_t after);
void moietyi_summary_raise_page(struct moietyi_buddy *buddy, moietyi_page page,
                                uint64_t before, uint64_t after);
void moietyi_summary_lower_chunks(struct moietyi_buddy *buddy,
                                  moietyi_page page, uint64_t mask,
                                  unsigned plane);
void moietyi_summary_lower_page(struct moietyi_buddy *buddy, moietyi_page page,
                                unsigned plane);
void moietyi_summary_lower_grain_page(struct moietyi_buddy *buddy,
                                      moietyi_page page, unsigned plane);

/* give.c: the upper levels, each one compare-and-swap and perhaps the level
 * above. `mask` must be free of what is free already, or false. */
bool moietyi_give_chunks(struct moietyi_buddy *buddy,
                         const struct moietyi_affinity *affinity,
                         moietyi_page page, uint64_t mask);
bool moietyi_give_pages(struct moietyi_buddy *buddy, uint32_t word_index,
                        uint64_t mask);
bool moietyi_give_grains(struct moietyi_buddy *buddy, moietyi_chunk chunk,
                         uint64_t mask);

/* give.c: moietyi_buddy_give(), but for the note in the index. */
bool moietyi_give_unnoted(struct moietyi_buddy *buddy,
                          const struct moietyi_affinity *affinity,
                          moietyi_grain start, uint64_t grains);

/* give.c: coalesce a word if it is full. */
void moietyi_close_chunk(struct moietyi_buddy *buddy,
                         const struct moietyi_affinity *affinity,
                         moietyi_chunk chunk);
void moietyi_close_page(struct moietyi_buddy *buddy, moietyi_page page);

/* affinity.c: the word that `affinity` took from is the one that stays open;
 * the page that it took from is its own, and its newest. Both do nothing where
 * `affinity` is NULL. */
void moietyi_affinity_stay(struct moietyi_buddy *buddy,
                           struct moietyi_affinity *affinity,
                           moietyi_chunk chunk);
void moietyi_affinity_move(struct moietyi_buddy *buddy,
                           struct moietyi_affinity *affinity,
                           moietyi_page page);
/* Drops the page at this place from the list; the next ones move up. */
void moietyi_affinity_forget(struct moietyi_buddy *buddy,
                             struct moietyi_affinity *affinity, unsigned at);

#endif
