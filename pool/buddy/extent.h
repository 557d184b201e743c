/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Free memory of one kind, which is what is done or what one stream's maps have,
 * read as runs of grains. For the files of this folder only.
 */
#ifndef BINADE_POOL_BUDDY_EXTENT_H_
#define BINADE_POOL_BUDDY_EXTENT_H_

#include "pool/buddy/map_state.h"

struct binadei_kind {
    struct binadei_buddy *buddy;
    struct binadei_maps *maps; /* NULL: what is done */
};

/* A free run that a search has found. */
struct binadei_run {
    uint64_t start;
    uint64_t grains; /* 0: none */
};

/* What is wanted of a run. */
struct binadei_want {
    uint64_t grains;
    uint64_t alignment; /* in grains, a power of two */
};

/* A run that is longer than what is needed by this part at most is as good as the
 * best. */
#define BINADEI_TIGHT_PART 16U

/* Where an interval may begin in a run. */
static inline uint64_t binadei_run_begin(const struct binadei_run *run,
                                         const struct binadei_want *want)
{
    return (run->start + want->alignment - 1) & ~(want->alignment - 1);
}

static inline bool binadei_run_fits(const struct binadei_run *run,
                                    const struct binadei_want *want)
{
    uint64_t skipped = binadei_run_begin(run, want) - run->start;
    return run->grains >= want->grains + skipped;
}

/* The maps of a view: a stream's two, and what is done. */
#define BINADEI_VIEW_MAPS (BINADEI_AGES + 1)

/* The words of a page, in one map or in several. */
struct binadei_page_words {
    unsigned count; /* maps; 0: nothing was ever free there */
    unsigned page_bit;
    /* Edges BW and MW and MH: the buddy's or the maps', here only read. */
    const binadei_atomic_word *pages[BINADEI_VIEW_MAPS];
    const binadei_atomic_word *chunks[BINADEI_VIEW_MAPS];
    const binadei_atomic_word *cut[BINADEI_VIEW_MAPS]; /* chunks with grains */
    const binadei_atomic_word
        *grains[BINADEI_VIEW_MAPS]; /* NULL: no free ones */
};

/* Of one kind of memory, or of a view's. */
struct binadei_page_words binadei_page_words_of(const struct binadei_kind *kind,
                                                binadei_page page);
struct binadei_page_words
binadei_page_words_of_view(const struct binadei_view *view, binadei_page page);

/* What is free in any of the maps, of pages of the group, of chunks of the
 * page, or chunks that may have grains. relaxed, here and below: advice. */
static inline uint64_t binadei_page_words_any(
    const struct binadei_page_words *words,
    const binadei_atomic_word *const level[BINADEI_VIEW_MAPS])
{
    uint64_t any = 0;
    for (unsigned i = 0; i < words->count; i++)
        any |= binadei_load_relaxed(level[i]);
    return any;
}

/* The same of one chunk's grains; relaxed. */
static inline uint64_t
binadei_page_words_grains(const struct binadei_page_words *words,
                          unsigned chunk)
{
    uint64_t any = 0;
    for (unsigned i = 0; i < words->count; i++)
        if (words->grains[i])
            any |= binadei_load_relaxed(&words->grains[i][chunk]);
    return any;
}

/* index.c: notes a run; shorter ones than the index has are left out. */
void binadei_index_note(const struct binadei_kind *kind, uint64_t start,
                        uint64_t grains);

/* Notes the run that grains [start, end), which were freed, are part of. */
void binadei_index_note_around(const struct binadei_kind *kind, uint64_t start,
                               uint64_t end);
/* Notes what is free on both sides of grains [start, end), which were taken. */
void binadei_index_note_sides(const struct binadei_kind *kind, uint64_t start,
                              uint64_t end);

/* A place in the index: pages in order of bins, and of addresses in a bin. */
struct binadei_index_at {
    unsigned bin;
    uint32_t page;
};

/* The next page with a bit, from a place on; false: there is none. */
bool binadei_index_find(const struct binadei_kind *kind,
                        struct binadei_index_at *at);
/* Takes its bit off; false: another has. */
bool binadei_index_take(const struct binadei_kind *kind,
                        const struct binadei_index_at *at);

/* Where the free run ends that begins at grain `at`, and where the one begins
 * that ends before it: from page to page, no further than BINADEI_INDEX_MOST
 * grains or a little more. */
uint64_t binadei_run_end(const struct binadei_kind *kind, uint64_t at);
uint64_t binadei_run_start(const struct binadei_kind *kind, uint64_t at);

#endif
