/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How far a free run goes, of one map or of several as one. A few words tell, as
 * it is read chunk by chunk, and beyond its page by up to 64 pages at once. Exact
 * while nobody takes or gives.
 */
#include "pool/buddy/extent.h"

/* How many units in a row are free from `bit` on; and from it down. */
static unsigned run_above(uint64_t word, unsigned bit)
{
    return binadei_word_low_run(word >> bit);
}

static unsigned run_below(uint64_t word, unsigned bit)
{
    return binadei_word_high_run(word << (BINADEI_WORD_BITS - 1 - bit));
}

/* Where the free run begins that ends before grain `at` of a page; no further than
 * the page. */
static unsigned page_run_start(const struct binadei_page_words *words,
                               unsigned at)
{
    uint64_t chunks = binadei_page_words_chunks(words);
    while (at) {
        unsigned chunk = (at - 1) / BINADEI_CHUNK_GRAINS;
        unsigned bit = (at - 1) % BINADEI_CHUNK_GRAINS;
        unsigned whole = run_below(chunks, chunk);
        if (whole) {
            at = (chunk + 1 - whole) * BINADEI_CHUNK_GRAINS;
            continue;
        }
        uint64_t taken = ~binadei_page_words_grains(words, chunk)
                         << (BINADEI_CHUNK_GRAINS - 1 - bit);
        if (taken)
            return at - (unsigned)__builtin_clzll(taken);
        at -= bit + 1;
    }
    return 0;
}

/* And where the one ends that begins at it. */
static unsigned page_run_end(const struct binadei_page_words *words,
                             unsigned at)
{
    uint64_t chunks = binadei_page_words_chunks(words);
    while (at < BINADEI_PAGE_GRAINS) {
        unsigned chunk = at / BINADEI_CHUNK_GRAINS;
        unsigned bit = at % BINADEI_CHUNK_GRAINS;
        unsigned whole = run_above(chunks, chunk);
        if (whole) {
            at = (chunk + whole) * BINADEI_CHUNK_GRAINS;
            continue;
        }
        uint64_t taken = ~binadei_page_words_grains(words, chunk) >> bit;
        if (taken)
            return at + binadei_word_lowest(taken);
        at += BINADEI_CHUNK_GRAINS - bit;
    }
    return BINADEI_PAGE_GRAINS;
}

/* Whose words are read: a stream's maps', what is done, or both as one. */
struct extent {
    const struct binadei_maps *maps;  /* NULL: not */
    const struct binadei_buddy *done; /* NULL: not */
};

/* Where the free run ends that begins at grain `at`, up to `limit` or a little
 * more. */
static uint64_t extent_end(const struct extent *extent, uint64_t at,
                           uint64_t limit)
{
    while (at < limit) {
        binadei_page page = binadei_page_of_grain(binadei_grain_at(at));
        struct binadei_page_words words =
            binadei_page_words_of(extent->maps, extent->done, page);
        uint64_t base = (uint64_t)page.index * BINADEI_PAGE_GRAINS;
        unsigned whole = run_above(binadei_page_words_pages(&words),
                                   page.index % BINADEI_WORD_BITS);
        if (whole) {
            at = base + (uint64_t)whole * BINADEI_PAGE_GRAINS;
            continue;
        }
        if (!(binadei_page_words_open(&words) & binadei_page_bit(page)))
            break;
        at = base + page_run_end(&words, (unsigned)(at - base));
        if (at - base < BINADEI_PAGE_GRAINS)
            break;
    }
    return at;
}

/* And where the one begins that ends before it, down to `limit` or a little
 * less. */
static uint64_t extent_start(const struct extent *extent, uint64_t at,
                             uint64_t limit)
{
    while (at > limit) {
        binadei_page page = binadei_page_of_grain(binadei_grain_at(at - 1));
        struct binadei_page_words words =
            binadei_page_words_of(extent->maps, extent->done, page);
        uint64_t base = (uint64_t)page.index * BINADEI_PAGE_GRAINS;
        unsigned whole = run_below(binadei_page_words_pages(&words),
                                   page.index % BINADEI_WORD_BITS);
        if (whole) {
            at = base - (uint64_t)(whole - 1) * BINADEI_PAGE_GRAINS;
            continue;
        }
        if (!(binadei_page_words_open(&words) & binadei_page_bit(page)))
            break;
        at = base + page_run_start(&words, (unsigned)(at - base));
        if (at > base)
            break;
    }
    return at;
}

static struct extent extent_of_kind(const struct binadei_kind *kind)
{
    return (struct extent){kind->maps, kind->buddy};
}

uint64_t binadei_run_end(const struct binadei_kind *kind, uint64_t at)
{
    const struct extent extent = extent_of_kind(kind);
    uint64_t all = (uint64_t)kind->buddy->page_capacity * BINADEI_PAGE_GRAINS;
    uint64_t limit = at + BINADEI_INDEX_MOST;
    return extent_end(&extent, at, limit < all ? limit : all);
}

uint64_t binadei_run_start(const struct binadei_kind *kind, uint64_t at)
{
    const struct extent extent = extent_of_kind(kind);
    return extent_start(&extent, at,
                        at > BINADEI_INDEX_MOST ? at - BINADEI_INDEX_MOST : 0);
}

static uint64_t extent_free_from(const struct extent *extent,
                                 binadei_grain start, binadei_grain end)
{
    uint64_t at = extent_end(extent, start.index, end.index);
    return (at < end.index ? at : end.index) - start.index;
}

uint64_t binadei_buddy_free_from(const struct binadei_buddy *buddy,
                                 binadei_grain start, binadei_grain end)
{
    const struct extent extent = {NULL, buddy};
    return extent_free_from(&extent, start, end);
}

uint64_t binadei_maps_free_from(const struct binadei_maps *maps,
                                binadei_grain start, binadei_grain end)
{
    const struct extent extent = {maps, NULL};
    return extent_free_from(&extent, start, end);
}

static struct extent extent_of_view(const struct binadei_view *view)
{
    return (struct extent){view->maps, view->is_own_only ? NULL : view->buddy};
}

uint64_t binadei_view_free_from(const struct binadei_view *view,
                                binadei_grain start, binadei_grain end)
{
    const struct extent extent = extent_of_view(view);
    return extent_free_from(&extent, start, end);
}

uint64_t binadei_view_free_before(const struct binadei_view *view,
                                  binadei_grain start, binadei_grain end)
{
    const struct extent extent = extent_of_view(view);
    uint64_t at = extent_start(&extent, end.index, start.index);
    return end.index - (at > start.index ? at : start.index);
}
