/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The best fit among the free runs of a view, whose maps are read as one: a run
 * may be made of pages of one map, chunks of a second and grains of a third.
 * The search goes by groups of 64 pages first. It looks into a page that is not
 * free as a whole only where what is free in it can be part of a run that is
 * long enough, and there by chunks first.
 *
 * What a search finds is a snapshot, and the claim decides. Every operation of
 * this file is relaxed for that reason. Two claims may each take what the other
 * needs, give it back and meet again; so a search that has failed often has the
 * run lock, and others respect that.
 */
#include "pool/buddy/extent.h"

#define FREE_TRIES 8U
#define TRIES 64U
/* The maps of a view: a stream's two, and what is done. */
#define DONE BINADEI_AGES
#define MAPS (BINADEI_AGES + 1)

struct scan {
    const struct binadei_view *view;
    struct binadei_want want;
    bool is_thorough;
    uint32_t group;
    struct binadei_maps_group *own; /* of the group, or NULL */
    struct binadei_run run;         /* what is being put together */
    struct binadei_run best;
};

/* Whether the best so far leaves so little over that no better one is worth a
 * look: above a page only where it leaves nothing. */
static bool is_tight(const struct scan *scan)
{
    uint64_t needed = scan->want.grains;
    uint64_t rest =
        needed > BINADEI_PAGE_GRAINS ? 0 : needed / BINADEI_TIGHT_PART;
    return scan->best.grains && scan->best.grains <= needed + rest;
}

/* A tight fit stays, as the lowest one. */
static void fit_end_run(struct scan *scan)
{
    const struct binadei_run *run = &scan->run;
    if (run->grains >= scan->want.grains &&
        binadei_run_fits(run, &scan->want) && !is_tight(scan) &&
        (!scan->best.grains || run->grains < scan->best.grains))
        scan->best = *run;
    scan->run.grains = 0;
}

/* Joins free grains to the run that they follow, or begins another. */
static void fit_add_free(struct scan *scan, uint64_t start, uint64_t grains)
{
    if (scan->run.start + scan->run.grains != start) {
        fit_end_run(scan);
        scan->run.start = start;
    }
    scan->run.grains += grains;
}

/* relaxed: a snapshot. */
#define OWN(scan, word)                                                        \
    ((scan)->own                                                               \
         ? binadei_load_relaxed(&(scan)->own->ages[BINADEI_FRESH].word) |      \
               binadei_load_relaxed(&(scan)->own->ages[BINADEI_AGEING].word)   \
         : 0)

static uint64_t fit_done_word(const struct scan *scan,
                              const binadei_atomic_word *word)
{
    return scan->view->is_own_only ? 0 : binadei_load_relaxed(word);
}

static uint64_t free_pages(const struct scan *scan)
{
    const struct binadei_group_state *done =
        &scan->view->buddy->groups[scan->group];
    return fit_done_word(scan, &done->free_pages) | OWN(scan, pages);
}

/* Those of the group that were ever added. */
static uint64_t pages_in_use(const struct scan *scan)
{
    uint32_t count =
        binadei_page_limit(scan->view->buddy) - scan->group * BINADEI_WORD_BITS;
    return count < BINADEI_WORD_BITS ? binadei_word_run(0, count)
                                     : BINADEI_WORD_FULL;
}

/* Of open pages, those beside one that is whole, or may be of two maps
 * together, and the group's ends: a run of two pages and more has a whole one,
 * so a page that is cut can only be its begin or its end. */
static uint64_t beside_whole(uint64_t whole, const uint64_t open[MAPS])
{
    const uint64_t ends = UINT64_C(1) << (BINADEI_WORD_BITS - 1) | 1;
    whole |= (open[BINADEI_FRESH] & open[BINADEI_AGEING]) |
             (open[BINADEI_FRESH] & open[DONE]) |
             (open[BINADEI_AGEING] & open[DONE]);
    return whole | whole << 1 | whole >> 1 | ends;
}

/* Pages that have chunks or grains which may be part of a long enough run. */
static uint64_t open_pages(const struct scan *scan, uint64_t whole)
{
    const struct binadei_group_state *done =
        &scan->view->buddy->groups[scan->group];
    uint64_t open[MAPS] = {0};
    if (scan->is_thorough)
        return pages_in_use(scan);
    for (unsigned age = 0; scan->own && age < BINADEI_AGES; age++)
        open[age] = binadei_load_relaxed(&scan->own->ages[age].open);
    open[DONE] = fit_done_word(scan, &done->chunk_pages[0]) |
                 fit_done_word(scan, &done->grain_pages[0]);
    uint64_t pages = open[BINADEI_FRESH] | open[BINADEI_AGEING] | open[DONE];
    return scan->want.grains >= UINT64_C(2) * BINADEI_PAGE_GRAINS
               ? pages & beside_whole(whole, open)
               : pages;
}

static uint64_t free_chunks(const struct scan *scan, binadei_page page)
{
    return fit_done_word(scan, &scan->view->buddy->pages[page.index].word) |
           OWN(scan, chunks[page.index % BINADEI_WORD_BITS]);
}

/* Chunks that may have grains. */
static uint64_t cut_chunks(const struct scan *scan, binadei_page page)
{
    if (scan->is_thorough)
        return BINADEI_WORD_FULL;
    return fit_done_word(
               scan, &scan->view->buddy->pages[page.index].chunk_summary[0]) |
           OWN(scan, cut[page.index % BINADEI_WORD_BITS]);
}

/* Chunks of which several maps may have grains, which together may be all. */
static uint64_t cut_twice(const struct scan *scan, binadei_page page)
{
    unsigned bit = page.index % BINADEI_WORD_BITS;
    if (!scan->own)
        return 0;
    uint64_t fresh =
        binadei_load_relaxed(&scan->own->ages[BINADEI_FRESH].cut[bit]);
    uint64_t ageing =
        binadei_load_relaxed(&scan->own->ages[BINADEI_AGEING].cut[bit]);
    uint64_t done = fit_done_word(
        scan, &scan->view->buddy->pages[page.index].chunk_summary[0]);
    return (fresh & ageing) | (fresh & done) | (ageing & done);
}

static uint64_t fit_free_grains(const struct scan *scan, binadei_chunk chunk)
{
    uint64_t word =
        fit_done_word(scan, &scan->view->buddy->chunk_words[chunk.index]);
    unsigned page_bit = binadei_page_of_chunk(chunk).index % BINADEI_WORD_BITS;
    const struct binadei_maps_page *own =
        scan->own ? binadei_maps_page_at(scan->own, page_bit) : NULL;
    unsigned bit = binadei_chunk_bit(chunk);
    return own ? word | binadei_load_relaxed(&own->grains[BINADEI_FRESH][bit]) |
                     binadei_load_relaxed(&own->grains[BINADEI_AGEING][bit])
               : word;
}

static void fit_add_runs(struct scan *scan, uint64_t base, uint64_t unit,
                         uint64_t word)
{
    while (word) {
        unsigned start;
        unsigned length;
        word &= ~binadei_word_first_run(word, &start, &length);
        fit_add_free(scan, base + start * unit, length * unit);
    }
}

/* Whether a run that is long enough may be within the page: enough `whole`
 * chunks are in a row, or the chunks do not tell. */
static bool may_fit_inside(const struct scan *scan, uint64_t whole)
{
    uint64_t needed = scan->want.grains / BINADEI_CHUNK_GRAINS;
    return needed < 3 || (needed - 1 <= BINADEI_WORD_BITS &&
                          binadei_word_has_run(whole, (unsigned)needed - 1));
}

/* Of the chunks of a page, those that can be part of a run that is long enough:
 * all, or only what is free at the page's two ends, each with the chunk next to
 * it, of which a part may belong to it. */
static uint64_t units_worth_it(const struct scan *scan, uint64_t whole)
{
    uint64_t taken = ~whole;
    if (!taken || may_fit_inside(scan, whole))
        return BINADEI_WORD_FULL;
    unsigned low = binadei_word_lowest(taken);
    unsigned high = (unsigned)__builtin_clzll(taken);
    return binadei_word_run(0, low + 1) |
           binadei_word_run(BINADEI_WORD_BITS - 1 - high, high + 1);
}

static void scan_page(struct scan *scan, binadei_page page)
{
    uint64_t chunks = free_chunks(scan, page);
    uint64_t whole = chunks | cut_twice(scan, page);
    uint64_t worth_it = units_worth_it(scan, whole);
    uint64_t units = (chunks | cut_chunks(scan, page)) & worth_it;
    bool is_longer_than_chunk = scan->want.grains > BINADEI_CHUNK_GRAINS;
    while (units) {
        unsigned bit = binadei_word_lowest(units);
        binadei_chunk chunk = binadei_chunk_in_page(page, bit);
        uint64_t base = chunk.index * BINADEI_CHUNK_GRAINS;
        if (chunks >> bit & 1) {
            unsigned length;
            units &= ~binadei_word_first_run(chunks & units, &bit, &length);
            fit_add_free(scan, base, (uint64_t)length * BINADEI_CHUNK_GRAINS);
            continue;
        }
        uint64_t grains = fit_free_grains(scan, chunk);
        fit_add_runs(scan, base, 1,
                     is_longer_than_chunk ? binadei_word_ends(grains) : grains);
        units &= units - 1;
    }
}

static void scan_group(struct scan *scan, uint32_t group)
{
    scan->group = group;
    scan->own = binadei_maps_group_at(scan->view->maps, group);
    uint64_t whole = free_pages(scan);
    uint64_t units = whole | open_pages(scan, whole);
    while (units && !is_tight(scan)) {
        unsigned bit = binadei_word_lowest(units);
        binadei_page page = {group * BINADEI_WORD_BITS + bit};
        if (whole >> bit & 1) {
            unsigned length;
            units &= ~binadei_word_first_run(whole & units, &bit, &length);
            fit_add_free(scan, (uint64_t)page.index * BINADEI_PAGE_GRAINS,
                         (uint64_t)length * BINADEI_PAGE_GRAINS);
            continue;
        }
        scan_page(scan, page);
        units &= units - 1;
    }
}

/* The start of the best fit; false: there is none. */
static bool fit_find(struct scan *scan, binadei_grain *out)
{
    const struct binadei_view *view = scan->view;
    uint32_t groups = binadei_page_word_limit(view->buddy);
    scan->run = (struct binadei_run){0, 0};
    scan->best = (struct binadei_run){0, 0};
    for (uint32_t i = 0; i < groups && !is_tight(scan); i++)
        scan_group(scan, i);
    fit_end_run(scan);
    *out = binadei_grain_at(binadei_run_begin(&scan->best, &scan->want));
    return scan->best.grains != 0;
}

static bool find_and_claim(struct scan *scan, unsigned tries,
                           bool *out_is_there, binadei_grain *out)
{
    *out_is_there = true;
    while (tries-- && (*out_is_there = fit_find(scan, out)))
        if (binadei_view_claim(scan->view, *out, scan->want.grains))
            return true;
    return false;
}

/* Best fit of all maps, with or without the run lock. */
static bool take_best(struct scan *scan, binadei_grain *out)
{
    struct binadei_buddy *buddy = scan->view->buddy;
    bool is_there;
    /* relaxed: advice. */
    bool is_contended =
        atomic_load_explicit(&buddy->contended_runs, memory_order_relaxed) != 0;
    if (!is_contended && find_and_claim(scan, FREE_TRIES, &is_there, out))
        return true;
    if (!is_contended && !is_there)
        return false;
    atomic_fetch_add_explicit(&buddy->contended_runs, 1, memory_order_relaxed);
    pthread_mutex_lock(&buddy->run_lock);
    BINADEI_STEP("locked.view");
    bool is_taken = find_and_claim(scan, TRIES, &is_there, out);
    pthread_mutex_unlock(&buddy->run_lock);
    atomic_fetch_sub_explicit(&buddy->contended_runs, 1, memory_order_relaxed);
    return is_taken;
}

bool binadei_view_take(const struct binadei_view *view, uint64_t grains,
                       uint32_t alignment, bool is_thorough, binadei_grain *out)
{
    struct scan scan = {
        .view = view, .want = {grains, alignment}, .is_thorough = is_thorough};
    bool is_good_enough = view->is_good_only || grains <= view->good_fit_grains;
    return (is_good_enough && !is_thorough &&
            binadei_view_take_good(view, grains, alignment, out)) ||
           (!view->is_good_only && take_best(&scan, out));
}
