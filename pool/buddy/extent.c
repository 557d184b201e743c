/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How far a free run goes. A few words tell, as it is read chunk by chunk, and
 * beyond its page by up to 64 pages at once.
 */
#include "pool/buddy/extent.h"

static void words_add_done(struct binadei_page_words *words,
                           struct binadei_buddy *buddy, binadei_page page)
{
    struct binadei_page_state *state = &buddy->pages[page.index];
    unsigned at = words->count++;
    words->pages[at] = &binadei_group_of(buddy, page)->free_pages;
    words->chunks[at] = &state->word;
    words->cut[at] = &state->chunk_summary[0];
    words->grains[at] =
        &buddy->chunk_words[binadei_chunk_in_page(page, 0).index];
}

static void words_add_own(struct binadei_page_words *words,
                          const struct binadei_maps *maps, binadei_page page)
{
    struct binadei_maps_group *group =
        binadei_maps_group_at(maps, page.index / BINADEI_WORD_BITS);
    if (!group)
        return;
    const struct binadei_maps_page *parts =
        binadei_maps_page_at(group, words->page_bit);
    for (unsigned age = 0; age < BINADEI_AGES; age++) {
        struct binadei_map_group *map = &group->ages[age];
        unsigned at = words->count++;
        words->pages[at] = &map->pages;
        words->chunks[at] = &map->chunks[words->page_bit];
        words->cut[at] = &map->cut[words->page_bit];
        words->grains[at] = parts ? parts->grains[age] : NULL;
    }
}

struct binadei_page_words binadei_page_words_of(const struct binadei_kind *kind,
                                                binadei_page page)
{
    struct binadei_page_words words = {.page_bit =
                                           page.index % BINADEI_WORD_BITS};
    if (page.index >= kind->buddy->page_capacity)
        return words;
    if (kind->maps)
        words_add_own(&words, kind->maps, page);
    else
        words_add_done(&words, kind->buddy, page);
    return words;
}

struct binadei_page_words
binadei_page_words_of_view(const struct binadei_view *view, binadei_page page)
{
    struct binadei_page_words words = {.page_bit =
                                           page.index % BINADEI_WORD_BITS};
    words_add_own(&words, view->maps, page);
    if (!view->is_own_only)
        words_add_done(&words, view->buddy, page);
    return words;
}

/* Where the free run begins that ends before grain `at` of a page; no further than
 * the page. */
static unsigned page_run_start(const struct binadei_page_words *words,
                               unsigned at)
{
    uint64_t chunks = binadei_page_words_any(words, words->chunks);
    while (at) {
        unsigned chunk = (at - 1) / BINADEI_CHUNK_GRAINS;
        unsigned bit = (at - 1) % BINADEI_CHUNK_GRAINS;
        if (chunks >> chunk & 1) {
            at = chunk * BINADEI_CHUNK_GRAINS;
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
    uint64_t chunks = binadei_page_words_any(words, words->chunks);
    while (at < BINADEI_PAGE_GRAINS) {
        unsigned chunk = at / BINADEI_CHUNK_GRAINS;
        unsigned bit = at % BINADEI_CHUNK_GRAINS;
        if (chunks >> chunk & 1) {
            at = (chunk + 1) * BINADEI_CHUNK_GRAINS;
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
        struct binadei_page_words words = binadei_page_words_of(kind, page);
        uint64_t base = (uint64_t)page.index * BINADEI_PAGE_GRAINS;
        uint64_t taken =
            ~(binadei_page_words_any(&words, words.pages) >> words.page_bit);
        unsigned whole = taken ? binadei_word_lowest(taken) : BINADEI_WORD_BITS;
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
        struct binadei_page_words words = binadei_page_words_of(kind, page);
        uint64_t base = (uint64_t)page.index * BINADEI_PAGE_GRAINS;
        uint64_t taken = ~binadei_page_words_any(&words, words.pages)
                         << (BINADEI_WORD_BITS - 1 - words.page_bit);
        unsigned whole =
            taken ? (unsigned)__builtin_clzll(taken) : words.page_bit + 1;
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
