/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Free memory of one kind, read as runs of grains: what is done; or what one
 * stream's maps have, joined with what is done beside it. For the files of this
 * folder only.
 */
#ifndef MOIETY_POOL_BUDDY_EXTENT_H_
#define MOIETY_POOL_BUDDY_EXTENT_H_

#include "pool/buddy/map_state.h"

struct moietyi_kind {
    struct moietyi_buddy *buddy;
    struct moietyi_maps *maps; /* NULL: what is done */
};

/* A free run that a search has found. */
struct moietyi_run {
    uint64_t start;
    uint64_t grains; /* 0: none */
};

/* What is wanted of a run. */
struct moietyi_want {
    uint64_t grains;
    uint64_t alignment; /* in grains, a power of two */
};

/* A run that is longer than what is needed by this part at most is as good as the
 * best. */
#define MOIETYI_TIGHT_PART 16U

/* Where an interval may begin in a run. */
static inline uint64_t moietyi_run_begin(const struct moietyi_run *run,
                                         const struct moietyi_want *want)
{
    return (run->start + want->alignment - 1) & ~(want->alignment - 1);
}

static inline bool moietyi_run_fits(const struct moietyi_run *run,
                                    const struct moietyi_want *want)
{
    uint64_t skipped = moietyi_run_begin(run, want) - run->start;
    return run->grains >= want->grains + skipped;
}

/* A page, and whose words of it are read: a stream's maps', what is done, or
 * both as one. Words are edges BW and MW and MH, here only read; relaxed: a
 * snapshot. */
struct moietyi_page_words {
    const struct moietyi_maps_group *own; /* NULL: not, or nothing free */
    const struct moietyi_buddy *done;     /* NULL: not */
    moietyi_page page;
};

/* NULL for what is not to be read. */
static inline struct moietyi_page_words
moietyi_page_words_of(const struct moietyi_maps *maps,
                      const struct moietyi_buddy *done, moietyi_page page)
{
    return (struct moietyi_page_words){
        moietyi_maps_group_at(maps, page.index / MOIETYI_WORD_BITS), done,
        page};
}

static inline struct moietyi_page_words
moietyi_page_words_of_kind(const struct moietyi_kind *kind, moietyi_page page)
{
    return moietyi_page_words_of(kind->maps, kind->buddy, page);
}

/* The group's pages that are free as a whole; relaxed. */
static inline uint64_t
moietyi_page_words_pages(const struct moietyi_page_words *words)
{
    uint64_t pages = 0;
    if (words->done)
        pages = moietyi_load_relaxed(
            &words->done->groups[words->page.index / MOIETYI_WORD_BITS]
                 .free_pages);
    for (unsigned age = 0; words->own && age < MOIETYI_AGES; age++)
        pages |= moietyi_load_relaxed(&words->own->pages[age]);
    return pages;
}

/* Those that may have free chunks or grains; relaxed, hints. */
static inline uint64_t
moietyi_page_words_open(const struct moietyi_page_words *words)
{
    uint64_t open = 0;
    if (words->done) {
        const struct moietyi_group_state *group =
            moietyi_group_of(words->done, words->page);
        open = moietyi_load_relaxed(&group->chunk_pages[MOIETYI_PLANE_ANY]) |
               moietyi_load_relaxed(&group->grain_pages[MOIETYI_PLANE_ANY]);
    }
    for (unsigned age = 0; words->own && age < MOIETYI_AGES; age++)
        open |= moietyi_load_relaxed(&words->own->open[age]);
    return open;
}

/* The page's chunks that are free as a whole; relaxed. */
static inline uint64_t
moietyi_page_words_chunks(const struct moietyi_page_words *words)
{
    unsigned bit = words->page.index % MOIETYI_WORD_BITS;
    uint64_t chunks = 0;
    if (words->done)
        chunks =
            moietyi_load_relaxed(&words->done->pages[words->page.index].word);
    for (unsigned age = 0; words->own && age < MOIETYI_AGES; age++)
        chunks |= moietyi_load_relaxed(&words->own->page[bit].chunks[age]);
    return chunks;
}

/* Chunks that may have free grains, and those of which several maps may;
 * relaxed. */
static inline uint64_t
moietyi_page_words_cut(const struct moietyi_page_words *words,
                       uint64_t *out_twice)
{
    unsigned bit = words->page.index % MOIETYI_WORD_BITS;
    uint64_t once = 0;
    uint64_t twice = 0;
    if (words->done)
        once = moietyi_load_relaxed(
            &words->done->pages[words->page.index].chunk_summary[0]);
    for (unsigned age = 0; words->own && age < MOIETYI_AGES; age++) {
        uint64_t cut = moietyi_load_relaxed(&words->own->page[bit].cut[age]);
        twice |= once & cut;
        once |= cut;
    }
    *out_twice = twice;
    return once;
}

/* The free grains of a chunk that is not free as a whole; relaxed. */
static inline uint64_t
moietyi_page_words_grains(const struct moietyi_page_words *words,
                          unsigned chunk)
{
    uint64_t grains = 0;
    if (words->done)
        grains = moietyi_load_relaxed(
            &words->done->chunk_words[moietyi_chunk_in_page(words->page, chunk)
                                          .index]);
    const struct moietyi_maps_parts *parts =
        words->own ? moietyi_maps_parts_at(words->own, words->page.index %
                                                           MOIETYI_WORD_BITS)
                   : NULL;
    for (unsigned age = 0; parts && age < MOIETYI_AGES; age++)
        grains |= moietyi_load_relaxed(&parts->grains[chunk][age]);
    return grains;
}

/* index.c: notes a run; shorter ones than the index has are left out. */
void moietyi_index_note(const struct moietyi_kind *kind, uint64_t start,
                        uint64_t grains);

/* Notes the run that grains [start, end), which were freed, are part of. */
void moietyi_index_note_around(const struct moietyi_kind *kind, uint64_t start,
                               uint64_t end);
/* Notes what is free before grain `start`, from `end` on, or on both sides of
 * grains [start, end), which were taken. */
void moietyi_index_note_left(const struct moietyi_kind *kind, uint64_t start);
void moietyi_index_note_right(const struct moietyi_kind *kind, uint64_t end);
void moietyi_index_note_sides(const struct moietyi_kind *kind, uint64_t start,
                              uint64_t end);

/* A place in the index: pages in order of bins, and of addresses in a bin. */
struct moietyi_index_at {
    unsigned bin;
    uint32_t page;
};

/* The next page with a bit, from a place on; false: there is none. */
bool moietyi_index_find(const struct moietyi_kind *kind,
                        struct moietyi_index_at *at);
/* Takes its bit off; false: another has. */
bool moietyi_index_take(const struct moietyi_kind *kind,
                        const struct moietyi_index_at *at);

/* Where the free run ends that begins at grain `at`, and where the one begins
 * that ends before it: from page to page, no further than MOIETYI_INDEX_MOST
 * grains or a little more. */
uint64_t moietyi_run_end(const struct moietyi_kind *kind, uint64_t at);
uint64_t moietyi_run_start(const struct moietyi_kind *kind, uint64_t at);

/* The run that free grains [start, end) are part of. */
static inline struct moietyi_run
moietyi_run_around(const struct moietyi_kind *kind, uint64_t start,
                   uint64_t end)
{
    uint64_t first = moietyi_run_start(kind, start);
    return (struct moietyi_run){first, moietyi_run_end(kind, end) - first};
}

#endif
