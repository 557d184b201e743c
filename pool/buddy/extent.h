/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Free memory of one kind, read as runs of grains: what is done; or what one
 * stream's maps have, joined with what is done beside it. For the files of this
 * folder only.
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

/* A page, and whose words of it are read: a stream's maps', what is done, or
 * both as one. Words are edges BW and MW and MH, here only read; relaxed: a
 * snapshot. */
struct binadei_page_words {
    const struct binadei_maps_group *own; /* NULL: not, or nothing free */
    const struct binadei_buddy *done;     /* NULL: not */
    binadei_page page;
};

/* NULL for what is not to be read. */
static inline struct binadei_page_words
binadei_page_words_of(const struct binadei_maps *maps,
                      const struct binadei_buddy *done, binadei_page page)
{
    return (struct binadei_page_words){
        binadei_maps_group_at(maps, page.index / BINADEI_WORD_BITS), done,
        page};
}

static inline struct binadei_page_words
binadei_page_words_of_kind(const struct binadei_kind *kind, binadei_page page)
{
    return binadei_page_words_of(kind->maps, kind->buddy, page);
}

/* The group's pages that are free as a whole; relaxed. */
static inline uint64_t
binadei_page_words_pages(const struct binadei_page_words *words)
{
    uint64_t pages = 0;
    if (words->done)
        pages = binadei_load_relaxed(
            &words->done->groups[words->page.index / BINADEI_WORD_BITS]
                 .free_pages);
    for (unsigned age = 0; words->own && age < BINADEI_AGES; age++)
        pages |= binadei_load_relaxed(&words->own->pages[age]);
    return pages;
}

/* Those that may have free chunks or grains; relaxed, hints. */
static inline uint64_t
binadei_page_words_open(const struct binadei_page_words *words)
{
    uint64_t open = 0;
    if (words->done) {
        const struct binadei_group_state *group =
            binadei_group_of(words->done, words->page);
        open = binadei_load_relaxed(&group->chunk_pages[BINADEI_PLANE_ANY]) |
               binadei_load_relaxed(&group->grain_pages[BINADEI_PLANE_ANY]);
    }
    for (unsigned age = 0; words->own && age < BINADEI_AGES; age++)
        open |= binadei_load_relaxed(&words->own->open[age]);
    return open;
}

/* The page's chunks that are free as a whole; relaxed. */
static inline uint64_t
binadei_page_words_chunks(const struct binadei_page_words *words)
{
    unsigned bit = words->page.index % BINADEI_WORD_BITS;
    uint64_t chunks = 0;
    if (words->done)
        chunks =
            binadei_load_relaxed(&words->done->pages[words->page.index].word);
    for (unsigned age = 0; words->own && age < BINADEI_AGES; age++)
        chunks |= binadei_load_relaxed(&words->own->page[bit].chunks[age]);
    return chunks;
}

/* Chunks that may have free grains, and those of which several maps may;
 * relaxed. */
static inline uint64_t
binadei_page_words_cut(const struct binadei_page_words *words,
                       uint64_t *out_twice)
{
    unsigned bit = words->page.index % BINADEI_WORD_BITS;
    uint64_t once = 0;
    uint64_t twice = 0;
    if (words->done)
        once = binadei_load_relaxed(
            &words->done->pages[words->page.index].chunk_summary[0]);
    for (unsigned age = 0; words->own && age < BINADEI_AGES; age++) {
        uint64_t cut = binadei_load_relaxed(&words->own->page[bit].cut[age]);
        twice |= once & cut;
        once |= cut;
    }
    *out_twice = twice;
    return once;
}

/* The free grains of a chunk that is not free as a whole; relaxed. */
static inline uint64_t
binadei_page_words_grains(const struct binadei_page_words *words,
                          unsigned chunk)
{
    uint64_t grains = 0;
    if (words->done)
        grains = binadei_load_relaxed(
            &words->done->chunk_words[binadei_chunk_in_page(words->page, chunk)
                                          .index]);
    const struct binadei_maps_parts *parts =
        words->own ? binadei_maps_parts_at(words->own, words->page.index %
                                                           BINADEI_WORD_BITS)
                   : NULL;
    for (unsigned age = 0; parts && age < BINADEI_AGES; age++)
        grains |= binadei_load_relaxed(&parts->grains[chunk][age]);
    return grains;
}

/* index.c: notes a run; shorter ones than the index has are left out. */
void binadei_index_note(const struct binadei_kind *kind, uint64_t start,
                        uint64_t grains);

/* Notes the run that grains [start, end), which were freed, are part of. */
void binadei_index_note_around(const struct binadei_kind *kind, uint64_t start,
                               uint64_t end);
/* Notes what is free before grain `start`, from `end` on, or on both sides of
 * grains [start, end), which were taken. */
void binadei_index_note_left(const struct binadei_kind *kind, uint64_t start);
void binadei_index_note_right(const struct binadei_kind *kind, uint64_t end);
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

/* The run that free grains [start, end) are part of. */
static inline struct binadei_run
binadei_run_around(const struct binadei_kind *kind, uint64_t start,
                   uint64_t end)
{
    uint64_t first = binadei_run_start(kind, start);
    return (struct binadei_run){first, binadei_run_end(kind, end) - first};
}

#endif
