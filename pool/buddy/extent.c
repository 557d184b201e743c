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
    return moietyi_word_low_run(word >> bit);
}

static unsigned run_below(uint64_t word, unsigned bit)
{
    return moietyi_word_high_run(word << (MOIETYI_WORD_BITS - 1 - bit));
}

/* Where the free run begins that ends before grain `at` of a page; no further than
 * the page. */
static unsigned page_run_start(const struct moietyi_page_words *words,
                               unsigned at)
{
    uint64_t chunks = moietyi_page_words_chunks(words);
    while (at) {
        unsigned chunk = (at - 1) / MOIETYI_CHUNK_GRAINS;
        unsigned bit = (at - 1) % MOIETYI_CHUNK_GRAINS;
        unsigned whole = run_below(chunks, chunk);
        if (whole) {
            at = (chunk + 1 - whole) * MOIETYI_CHUNK_GRAINS;
            continue;
        }
        uint64_t taken = ~moietyi_page_words_grains(words, chunk)
                         << (MOIETYI_CHUNK_GRAINS - 1 - bit);
        if (taken)
            return at - (unsigned)__builtin_clzll(taken);
        at -= bit + 1;
    }
    return 0;
}

/* And where the one ends that begins at it. */
static unsigned page_run_end(const struct moietyi_page_words *words,
                             unsigned at)
{
    uint64_t chunks = moietyi_page_words_chunks(words);
    while (at < MOIETYI_PAGE_GRAINS) {
        unsigned chunk = at / MOIETYI_CHUNK_GRAINS;
        unsigned bit = at % MOIETYI_CHUNK_GRAINS;
        unsigned whole = run_above(chunks, chunk);
        if (whole) {
            at = (chunk + whole) * MOIETYI_CHUNK_GRAINS;
            continue;
        }
        uint64_t taken = ~moietyi_page_words_grains(words, chunk) >> bit;
        if (taken)
            return at + moietyi_word_lowest(taken);
        at += MOIETYI_CHUNK_GRAINS - bit;
    }
    return MOIETYI_PAGE_GRAINS;
}

/* Whose words are read: a stream's maps', what is done, or both as one. */
struct extent {
    const struct moietyi_maps *maps;  /* NULL: not */
    const struct moietyi_buddy *done; /* NULL: not */
};

/* Where the free run ends that begins at grain `at`, up to `limit` or a little
 * more. */
static uint64_t extent_end(const struct extent *extent, uint64_t at,
                           uint64_t limit)
{
    while (at < limit) {
        moietyi_page page = moietyi_page_of_grain(moietyi_grain_at(at));
        struct moietyi_page_words words =
            moietyi_page_words_of(extent->maps, extent->done, page);
        uint64_t base = (uint64_t)page.index * MOIETYI_PAGE_GRAINS;
        unsigned whole = run_above(moietyi_page_words_pages(&words),
                                   page.index % MOIETYI_WORD_BITS);
        if (whole) {
            at = base + (uint64_t)whole * MOIETYI_PAGE_GRAINS;
            continue;
        }
        if (!(moietyi_page_words_open(&words) & moietyi_page_bit(page)))
            break;
        at = base + page_run_end(&words, (unsigned)(at - base));
        if (at - base < MOIETYI_PAGE_GRAINS)
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
        moietyi_page page = moietyi_page_of_grain(moietyi_grain_at(at - 1));
        struct moietyi_page_words words =
            moietyi_page_words_of(extent->maps, extent->done, page);
        uint64_t base = (uint64_t)page.index * MOIETYI_PAGE_GRAINS;
        unsigned whole = run_below(moietyi_page_words_pages(&words),
                                   page.index % MOIETYI_WORD_BITS);
        if (whole) {
            at = base - (uint64_t)(whole - 1) * MOIETYI_PAGE_GRAINS;
            continue;
        }
        if (!(moietyi_page_words_open(&words) & moietyi_page_bit(page)))
            break;
        at = base + page_run_start(&words, (unsigned)(at - base));
        if (at > base)
            break;
    }
    return at;
}

static struct extent extent_of_kind(const struct moietyi_kind *kind)
{
    return (struct extent){kind->maps, kind->buddy};
}

uint64_t moietyi_run_end(const struct moietyi_kind *kind, uint64_t at)
{
    const struct extent extent = extent_of_kind(kind);
    uint64_t all = (uint64_t)kind->buddy->page_capacity * MOIETYI_PAGE_GRAINS;
    uint64_t limit = at + MOIETYI_INDEX_MOST;
    return extent_end(&extent, at, limit < all ? limit : all);
}

uint64_t moietyi_run_start(const struct moietyi_kind *kind, uint64_t at)
{
    const struct extent extent = extent_of_kind(kind);
    return extent_start(&extent, at,
                        at > MOIETYI_INDEX_MOST ? at - MOIETYI_INDEX_MOST : 0);
}

static uint64_t extent_free_from(const struct extent *extent,
                                 moietyi_grain start, moietyi_grain end)
{
    uint64_t at = extent_end(extent, start.index, end.index);
    return (at < end.index ? at : end.index) - start.index;
}

uint64_t moietyi_buddy_free_from(const struct moietyi_buddy *buddy,
                                 moietyi_grain start, moietyi_grain end)
{
    const struct extent extent = {NULL, buddy};
    return extent_free_from(&extent, start, end);
}

uint64_t moietyi_maps_free_from(const struct moietyi_maps *maps,
                                moietyi_grain start, moietyi_grain end)
{
    const struct extent extent = {maps, NULL};
    return extent_free_from(&extent, start, end);
}

static struct extent extent_of_view(const struct moietyi_view *view)
{
    return (struct extent){view->maps, view->is_own_only ? NULL : view->buddy};
}

uint64_t moietyi_view_free_from(const struct moietyi_view *view,
                                moietyi_grain start, moietyi_grain end)
{
    const struct extent extent = extent_of_view(view);
    return extent_free_from(&extent, start, end);
}

uint64_t moietyi_view_free_before(const struct moietyi_view *view,
                                  moietyi_grain start, moietyi_grain end)
{
    const struct extent extent = extent_of_view(view);
    uint64_t at = extent_start(&extent, end.index, start.index);
    return end.index - (at > start.index ? at : start.index);
}
