/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The words of a buddy, for the files of this folder only.
 */
#ifndef BINADE_POOL_BUDDY_STATE_H_
#define BINADE_POOL_BUDDY_STATE_H_

#include <pthread.h>

#include "pool/base/atomics.h"
#include "pool/buddy/buddy.h"
#include "pool/buddy/word.h"

/* A summary plane says of each word whether it may hold a free run of at least
 * its threshold. Without planes a search among short holes visits them all. */
#define BINADEI_PLANE_COUNT 3U
static const unsigned binadei_plane_threshold[BINADEI_PLANE_COUNT] = {1, 8, 32};

struct binadei_buddy {
    uint32_t page_capacity;
    size_t map_bytes;
    void *map;

    /* Edge BP: add (release) -> any search (acquire). One past the highest page
     * ever added; only grows. */
    binadei_atomic_word page_limit;

    /* Edge BW: give (acq_rel) -> take (acquire), on every word of the three
     * levels. A bit set = a unit free. A chunk or page word is 0 while its unit
     * is free or taken whole in the level above, and never all ones, except
     * where hysteresis leaves a searcher's own word open. */
    binadei_atomic_word *chunk_words; /* grains of each chunk */
    binadei_atomic_word *page_words;  /* chunks of each page */
    binadei_atomic_word *free_pages;  /* pages, flat */

    /* Edge BS: raise (acq_rel) -> lower's recheck (acquire). Hints: a set bit
     * says "may". A bit that is clear while its word has such a run is set by
     * whoever made the run, after the word. */
    binadei_atomic_word *chunk_summary[BINADEI_PLANE_COUNT]; /* word a page */
    binadei_atomic_word *grain_pages[BINADEI_PLANE_COUNT];   /* bit a page */
    binadei_atomic_word *chunk_pages[BINADEI_PLANE_COUNT];   /* bit a page */

    /* Edge: none; relaxed. Pages that are somebody's home: others prefer not to
     * search there, nothing depends on it. */
    binadei_atomic_word *homes;

    /* Edge: none; relaxed. Written by the holder of the interval, which got it
     * over BW and gives it back over BW. */
    _Atomic uint8_t *classes;     /* a byte a grain */
    _Atomic uint32_t *run_chunks; /* a word a page */

    /* Guards no data: one searcher for runs of pages at a time, so that two do
     * not each take half of what the other needs. */
    pthread_mutex_t run_lock;
};

static inline binadei_atomic_word *binadei_bit_word(binadei_atomic_word *bits,
                                                    binadei_page page)
{
    return &bits[page.index / BINADEI_WORD_BITS];
}

static inline uint64_t binadei_page_bit(binadei_page page)
{
    return UINT64_C(1) << page.index % BINADEI_WORD_BITS;
}

/* One past the highest page; and the number of words that cover them. */
static inline uint32_t binadei_page_limit(const struct binadei_buddy *buddy)
{
    /* BP.acquire */
    return (uint32_t)binadei_load_acquire(&buddy->page_limit);
}

static inline uint32_t
binadei_page_word_limit(const struct binadei_buddy *buddy)
{
    return (binadei_page_limit(buddy) + BINADEI_WORD_BITS - 1) /
           BINADEI_WORD_BITS;
}

/* The plane to search for runs of `length` units: the highest threshold that
 * such a run reaches. */
static inline unsigned binadei_plane_for(unsigned length)
{
    return length >= 32 ? 2U : length >= 8 ? 1U : 0U;
}

/* summary.c: raise after `before` became `after`; lower after a search found
 * no run of the plane's threshold. */
void binadei_summary_raise_chunk(struct binadei_buddy *buddy,
                                 binadei_chunk chunk, uint64_t before,
                                 uint64_t after);
void binadei_summary_raise_page(struct binadei_buddy *buddy, binadei_page page,
                                uint64_t before, uint64_t after);
void binadei_summary_lower_chunk(struct binadei_buddy *buddy,
                                 binadei_chunk chunk, unsigned plane);
void binadei_summary_lower_page(struct binadei_buddy *buddy, binadei_page page,
                                unsigned plane);
void binadei_summary_lower_grain_page(struct binadei_buddy *buddy,
                                      binadei_page page, unsigned plane);

/* give.c: the three levels, each one compare-and-swap and perhaps the level
 * above. `mask` must be free of what is free already, or false. */
bool binadei_give_grains(struct binadei_buddy *buddy,
                         const struct binadei_home *home, binadei_chunk chunk,
                         uint64_t mask);
bool binadei_give_chunks(struct binadei_buddy *buddy,
                         const struct binadei_home *home, binadei_page page,
                         uint64_t mask);
bool binadei_give_pages(struct binadei_buddy *buddy, uint32_t word_index,
                        uint64_t mask);

/* trim.c: retire a word if it is full. */
void binadei_close_chunk(struct binadei_buddy *buddy,
                         const struct binadei_home *home, binadei_chunk chunk);
void binadei_close_page(struct binadei_buddy *buddy, binadei_page page);

/* take.c: the lowest free page, claimed. */
bool binadei_take_page(struct binadei_buddy *buddy, binadei_page *out);

/* home.c: the word that `home` took from is its own from now on; the page that
 * it took from is. Both do nothing where `home` is NULL. */
void binadei_home_stay(struct binadei_buddy *buddy, struct binadei_home *home,
                       binadei_chunk chunk);
void binadei_home_move(struct binadei_buddy *buddy, struct binadei_home *home,
                       binadei_page page);

#endif
