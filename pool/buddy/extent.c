/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How far a free run goes. A few words tell, as it is read chunk by chunk, and
 * beyond its page by up to 64 pages at once.
 */
#include "pool/buddy/extent.h"

static struct binadei_page_words
extent_words_of(const struct binadei_kind *kind, binadei_page page)
{
    if (page.index >= kind->buddy->page_capacity)
        return (struct binadei_page_words){.page = page};
    return binadei_page_words_of_kind(kind, page);
}

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

uint64_t binadei_run_end(const struct binadei_kind *kind, uint64_t at)
{
    uint64_t limit = at + BINADEI_INDEX_MOST;
    while (at < limit) {
        binadei_page page = binadei_page_of_grain(binadei_grain_at(at));
        struct binadei_page_words words = extent_words_of(kind, page);
        uint64_t base = (uint64_t)page.index * BINADEI_PAGE_GRAINS;
        unsigned whole = run_above(binadei_page_words_pages(&words),
                                   page.index % BINADEI_WORD_BITS);
        if (whole) {
            at = base + (uint64_t)whole * BINADEI_PAGE_GRAINS;
            continue;
        }
        at = base + page_run_end(&words, (unsigned)(at - base));
        if (at - base < BINADEI_PAGE_GRAINS)
            break;
    }
    return at;
}

uint64_t binadei_run_start(const struct binadei_kind *kind, uint64_t at)
{
    uint64_t limit = at > BINADEI_INDEX_MOST ? at - BINADEI_INDEX_MOST : 0;
    while (at > limit) {
        binadei_page page = binadei_page_of_grain(binadei_grain_at(at - 1));
        struct binadei_page_words words = extent_words_of(kind, page);
        uint64_t base = (uint64_t)page.index * BINADEI_PAGE_GRAINS;
        unsigned whole = run_below(binadei_page_words_pages(&words),
                                   page.index % BINADEI_WORD_BITS);
        if (whole) {
            at = base - (uint64_t)(whole - 1) * BINADEI_PAGE_GRAINS;
            continue;
        }
        at = base + page_run_start(&words, (unsigned)(at - base));
        if (at > base)
            break;
    }
    return at;
}
