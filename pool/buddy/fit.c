/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Fits among the free runs of a view: a good one by the index, or the best.
 *
 * A good fit: of the lowest bin in which a page has a run that is long enough, of
 * the stream's own joined with what is done, or of what is done, the best of a few
 * pages; of the stream's own alone, what lies at an end of such a run. A search
 * takes a page's bit off before it looks there, so that others go elsewhere, and
 * notes all runs that it sees and leaves.
 *
 * The best fit reads all maps as one: a run may be made of pages of one map,
 * chunks of a second and grains of a third. The search goes by groups of 64 pages
 * first. It looks into a page that is not free as a whole only where what is free
 * in it can be part of a run that is long enough, and there by chunks first.
 *
 * What a search finds is a snapshot, and the claim decides. Every operation of
 * this file is relaxed for that reason. Two claims may each take what the other
 * needs, give it back and meet again; so a best fit that has failed often has the
 * run lock, and others respect that.
 */
#include "pool/buddy/extent.h"

/* Pages with runs that a search by the index looks at before it gives up, and in
 * the first bin, where they may be too short; and those that have a fit. */
#define VISITS 36U
#define FIRST_VISITS 12U
#define FITS 4U
/* Longer than this the best of all that are visited is taken. */
#define LONG_GRAINS (UINT64_C(1) << 17)
/* Pages in all: one from which everything has gone costs a few loads, once. */
#define LOOKS 1024U
/* Claims of a best fit, and those with the run lock. */
#define FREE_TRIES 8U
#define TRIES 64U

#define KINDS 2U
/* The maps of a view: a stream's two, and what is done. */
#define DONE MOIETYI_AGES
#define MAPS (MOIETYI_AGES + 1)

/* Free grains as a search finds them are put together to a run, with which each
 * search's own state begins; `end` is what becomes of one that goes no further.
 * Inlined, so that each search is a loop of its own: it costs a quarter of a
 * miss. */
typedef void run_end_fn(struct moietyi_run *run);

#define RUN_INLINE static inline __attribute__((always_inline))

RUN_INLINE void run_end(struct moietyi_run *run, run_end_fn *end)
{
    if (run->grains)
        end(run);
    run->grains = 0;
}

RUN_INLINE void run_add(struct moietyi_run *run, run_end_fn *end,
                        uint64_t start, uint64_t grains)
{
    if (run->start + run->grains != start) {
        run_end(run, end);
        run->start = start;
    }
    run->grains += grains;
}

RUN_INLINE void run_add_word(struct moietyi_run *run, run_end_fn *end,
                             uint64_t base, uint64_t word)
{
    while (word) {
        unsigned start;
        unsigned length;
        word &= ~moietyi_word_first_run(word, &start, &length);
        run_add(run, end, base + start, length);
    }
}

/* Of a page that begins at grain `base`, those of `units` that are whole `chunks`,
 * and of the others their grains; `are_ends_enough`: no run is within a chunk. */
RUN_INLINE void run_add_page(struct moietyi_run *run, run_end_fn *end,
                             const struct moietyi_page_words *words,
                             uint64_t base, uint64_t chunks, uint64_t units,
                             bool are_ends_enough)
{
    while (units) {
        unsigned bit = moietyi_word_lowest(units);
        uint64_t start = base + (uint64_t)bit * MOIETYI_CHUNK_GRAINS;
        if (chunks >> bit & 1) {
            unsigned length;
            units &= ~moietyi_word_first_run(chunks & units, &bit, &length);
            run_add(run, end, start, (uint64_t)length * MOIETYI_CHUNK_GRAINS);
            continue;
        }
        uint64_t grains = moietyi_page_words_grains(words, bit);
        run_add_word(run, end, start,
                     are_ends_enough ? moietyi_word_ends(grains) : grains);
        units &= units - 1;
    }
}

struct visit {
    struct moietyi_run run; /* being put together; in grains of the page */
    const struct moietyi_kind *kind; /* in whose index the page is */
    /* What a fit is made of: this kind, or what is joined with it. */
    const struct moietyi_kind *reach;
    uint64_t least; /* grains; shorter runs are not looked at */
    struct moietyi_want want;
    const struct moietyi_view *own; /* NULL: not of the stream's own alone */
    uint64_t page_base;
    struct moietyi_run best;
    bool has_runs;
};

/* As long as the run is, in the page and beyond. */
static struct moietyi_run whole_run(const struct visit *visit)
{
    const struct moietyi_run *run = &visit->run;
    uint64_t first = visit->page_base + run->start;
    uint64_t last = first + run->grains;
    if (run->start == 0 && first)
        first = moietyi_run_start(visit->kind, first);
    if (last == visit->page_base + MOIETYI_PAGE_GRAINS)
        last = moietyi_run_end(visit->kind, last);
    return (struct moietyi_run){first, last - first};
}

/* What is the stream's own at one of the ends of a run: the longer one. */
static struct moietyi_run own_end(const struct moietyi_view *own,
                                  const struct moietyi_run *run)
{
    moietyi_grain start = moietyi_grain_at(run->start);
    moietyi_grain end = moietyi_grain_at(run->start + run->grains);
    uint64_t first = moietyi_view_free_from(own, start, end);
    uint64_t last =
        first < run->grains ? moietyi_view_free_before(own, start, end) : first;
    return first >= last ? (struct moietyi_run){start.index, first}
                         : (struct moietyi_run){end.index - last, last};
}

/* As long as it is with what is joined with it. */
static void note_fit(const struct visit *visit, const struct moietyi_run *fit)
{
    if (visit->own && fit->grains)
        moietyi_index_note_around(visit->reach, fit->start,
                                  fit->start + fit->grains);
    else
        moietyi_index_note(visit->reach, fit->start, fit->grains);
}

/* The better one stays, the other one is noted. */
static void good_fit_end_run(struct moietyi_run *run)
{
    struct visit *visit = (struct visit *)run;
    struct moietyi_run whole = whole_run(visit);
    if (whole.grains < visit->least)
        return;
    visit->has_runs = true;
    if (visit->reach != visit->kind) {
        /* With what is joined with it on both sides: a part of that would be
         * cut out of the middle. */
        moietyi_index_note(visit->kind, whole.start, whole.grains);
        whole = moietyi_run_around(visit->reach, whole.start,
                                   whole.start + whole.grains);
    }
    struct moietyi_run fit = visit->own ? own_end(visit->own, &whole) : whole;
    /* Its ends are the stream's no more: the index of what is done leads there. */
    if (!fit.grains)
        return;
    if (moietyi_run_fits(&fit, &visit->want) &&
        (!visit->best.grains || fit.grains < visit->best.grains)) {
        whole = visit->best;
        visit->best = fit;
    }
    note_fit(visit, &whole);
}

/* Runs of the page, of a chunk at least, the best of them in `best`. */
static void good_fit_look(struct visit *visit, moietyi_page page)
{
    struct moietyi_page_words words =
        moietyi_page_words_of_kind(visit->kind, page);
    uint64_t chunks = moietyi_page_words_chunks(&words);
    uint64_t cut_twice;
    uint64_t units = chunks | moietyi_page_words_cut(&words, &cut_twice);
    visit->page_base = (uint64_t)page.index * MOIETYI_PAGE_GRAINS;
    if (moietyi_page_words_pages(&words) >> page.index % MOIETYI_WORD_BITS & 1)
        chunks = units = MOIETYI_WORD_FULL;
    run_add_page(&visit->run, good_fit_end_run, &words, 0, chunks, units, true);
    run_end(&visit->run, good_fit_end_run);
}

/* The best fit of a visit. Where a part of it has gone meanwhile, whoever took
 * that has noted what is left, and so does the claim with what it gives back.
 */
static bool good_fit_claim(const struct visit *visit, moietyi_grain *out)
{
    const struct moietyi_kind *kind = visit->reach;
    const struct moietyi_view view = {.buddy = kind->buddy,
                                      .maps = kind->maps,
                                      .is_own_only = visit->own != NULL};
    *out = moietyi_grain_at(moietyi_run_begin(&visit->best, &visit->want));
    MOIETYI_STEP("index.looked");
    return moietyi_view_claim(&view, *out, visit->want.grains);
}

/* Where a search is: in the index of each kind of memory that it may take. */
struct search {
    struct moietyi_kind kinds[KINDS];
    struct moietyi_index_at at[KINDS]; /* of no bin: there is no page */
    bool is_behind[KINDS]; /* the next page is not known, from that place on */
    unsigned first_bin;
    unsigned visits;
    unsigned looks;
};

static void good_fit_start(struct search *search,
                           const struct moietyi_view *view, uint64_t grains)
{
    search->first_bin = moietyi_index_bin(grains);
    for (unsigned i = 0; i < KINDS; i++) {
        bool is_own = i == 0;
        bool is_in_view = is_own ? view->maps != NULL : !view->is_own_only;
        search->kinds[i] =
            (struct moietyi_kind){view->buddy, is_own ? view->maps : NULL};
        search->is_behind[i] = is_in_view;
        search->at[i] = (struct moietyi_index_at){
            search->is_behind[i] ? search->first_bin : MOIETYI_INDEX_BINS, 0};
    }
}

/* The bin of the kind's next page. */
static unsigned next_bin(struct search *search, unsigned kind)
{
    if (search->is_behind[kind])
        (void)moietyi_index_find(&search->kinds[kind], &search->at[kind]);
    search->is_behind[kind] = false;
    return search->at[kind].bin;
}

/* The kind of memory whose next page is in the lower bin; KINDS: there is no
 * page, or the search has looked at enough. */
static unsigned next_kind(struct search *search)
{
    unsigned bin = next_bin(search, 0);
    unsigned kind = bin > search->first_bin && next_bin(search, 1) < bin;
    return search->at[kind].bin < MOIETYI_INDEX_BINS &&
                   search->visits < VISITS && search->looks < LOOKS
               ? kind
               : KINDS;
}

static void go_on(struct search *search, unsigned kind)
{
    struct moietyi_index_at *at = &search->at[kind];
    at->page++;
    if (at->bin == search->first_bin && search->visits >= FIRST_VISITS)
        *at = (struct moietyi_index_at){at->bin + 1, 0};
    search->is_behind[kind] = true;
}

/* The next page's best fit, in `visit`, which keeps what it says of the size. */
static void visit_next(struct search *search, unsigned kind,
                       struct visit *visit)
{
    const struct moietyi_index_at *at = &search->at[kind];
    const struct moietyi_kind *own = &search->kinds[0];
    visit->kind = &search->kinds[kind];
    visit->reach = own->maps ? own : visit->kind;
    visit->least = moietyi_index_bin_grains(at->bin);
    visit->run = (struct moietyi_run){0, 0};
    visit->best = (struct moietyi_run){0, 0};
    visit->has_runs = false;
    search->looks++;
    if (moietyi_index_take(visit->kind, at))
        good_fit_look(visit, (moietyi_page){at->page});
    search->visits += visit->has_runs;
    go_on(search, kind);
}

/* Of long runs there are few, and what they leave over is long. */
static bool is_long(const struct moietyi_want *want)
{
    return want->grains > LONG_GRAINS;
}

static bool is_tight_enough(const struct visit *visit)
{
    uint64_t rest =
        is_long(&visit->want) ? 0 : visit->want.grains / MOIETYI_TIGHT_PART;
    return visit->best.grains &&
           visit->best.grains <= visit->want.grains + rest;
}

/* Whether a run of the bin may be shorter than the best so far, which is longer by
 * what it is joined with. */
static bool may_be_better(const struct visit *best, unsigned bin)
{
    return !best->best.grains || bin <= moietyi_index_bin(best->best.grains);
}

/* The best of a few pages of the lowest bin that has a fit. */
static bool good_fit_find(struct search *search, struct visit *best)
{
    unsigned most = is_long(&best->want) ? VISITS : FITS;
    unsigned kind;
    for (unsigned fits = 0; fits < most && !is_tight_enough(best) &&
                            (kind = next_kind(search)) < KINDS;) {
        struct visit visit = *best;
        if (!may_be_better(best, search->at[kind].bin))
            break;
        visit_next(search, kind, &visit);
        if (!visit.best.grains)
            continue;
        fits++;
        if (best->best.grains && best->best.grains <= visit.best.grains) {
            note_fit(&visit, &visit.best);
            continue;
        }
        note_fit(best, &best->best);
        *best = visit;
    }
    return best->best.grains != 0;
}

bool moietyi_view_take_good(const struct moietyi_view *view, uint64_t grains,
                            uint32_t alignment, moietyi_grain *out)
{
    struct search search = {.visits = 0};
    struct visit best;
    if (grains < MOIETYI_INDEX_LEAST || grains > MOIETYI_INDEX_MOST / 2)
        return false;
    do {
        best = (struct visit){.want = {grains, alignment},
                              .own = view->is_own_only ? view : NULL};
        good_fit_start(&search, view, grains);
        if (!good_fit_find(&search, &best))
            return false;
    } while (!good_fit_claim(&best, out));
    return true;
}

struct scan {
    struct moietyi_run run; /* being put together */
    const struct moietyi_view *view;
    struct moietyi_want want;
    bool is_thorough;
    uint32_t group;
    struct moietyi_maps_group *own; /* of the group, or NULL */
    struct moietyi_run best;
};

/* Whether the best so far leaves so little over that no better one is worth a
 * look: above a page only where it leaves nothing. */
static bool is_tight(const struct scan *scan)
{
    uint64_t needed = scan->want.grains;
    uint64_t rest =
        needed > MOIETYI_PAGE_GRAINS ? 0 : needed / MOIETYI_TIGHT_PART;
    return scan->best.grains && scan->best.grains <= needed + rest;
}

/* A tight fit stays, as the lowest one. */
static void fit_end_run(struct moietyi_run *run)
{
    struct scan *scan = (struct scan *)run;
    if (run->grains >= scan->want.grains &&
        moietyi_run_fits(run, &scan->want) && !is_tight(scan) &&
        (!scan->best.grains || run->grains < scan->best.grains))
        scan->best = *run;
}

static uint64_t fit_done_word(const struct scan *scan,
                              const moietyi_atomic_word *word)
{
    return scan->view->is_own_only ? 0 : moietyi_load_relaxed(word);
}

static uint64_t free_pages(const struct scan *scan)
{
    const struct moietyi_group_state *done =
        &scan->view->buddy->groups[scan->group];
    uint64_t pages = fit_done_word(scan, &done->free_pages);
    for (unsigned age = 0; scan->own && age < MOIETYI_AGES; age++)
        pages |= moietyi_load_relaxed(&scan->own->pages[age]);
    return pages;
}

/* Those of the group that were ever added. */
static uint64_t pages_in_use(const struct scan *scan)
{
    uint32_t count =
        moietyi_page_limit(scan->view->buddy) - scan->group * MOIETYI_WORD_BITS;
    return count < MOIETYI_WORD_BITS ? moietyi_word_run(0, count)
                                     : MOIETYI_WORD_FULL;
}

/* Of open pages, those beside one that is whole, or may be of two maps
 * together, and the group's ends: a run of two pages and more has a whole one,
 * so a page that is cut can only be its begin or its end. */
static uint64_t beside_whole(uint64_t whole, const uint64_t open[MAPS])
{
    const uint64_t ends = UINT64_C(1) << (MOIETYI_WORD_BITS - 1) | 1;
    whole |= (open[MOIETYI_FRESH] & open[MOIETYI_AGEING]) |
             (open[MOIETYI_FRESH] & open[DONE]) |
             (open[MOIETYI_AGEING] & open[DONE]);
    return whole | whole << 1 | whole >> 1 | ends;
}

/* Pages that have chunks or grains which may be part of a long enough run. */
static uint64_t open_pages(const struct scan *scan, uint64_t whole)
{
    const struct moietyi_group_state *done =
        &scan->view->buddy->groups[scan->group];
    uint64_t open[MAPS] = {0};
    if (scan->is_thorough)
        return pages_in_use(scan);
    for (unsigned age = 0; scan->own && age < MOIETYI_AGES; age++)
        open[age] = moietyi_load_relaxed(&scan->own->open[age]);
    open[DONE] = fit_done_word(scan, &done->chunk_pages[0]) |
                 fit_done_word(scan, &done->grain_pages[0]);
    uint64_t pages = open[MOIETYI_FRESH] | open[MOIETYI_AGEING] | open[DONE];
    return scan->want.grains >= UINT64_C(2) * MOIETYI_PAGE_GRAINS
               ? pages & beside_whole(whole, open)
               : pages;
}

/* Whether a run that is long enough may be within the page: enough `whole`
 * chunks are in a row, or the chunks do not tell. */
static bool may_fit_inside(const struct scan *scan, uint64_t whole)
{
    uint64_t needed = scan->want.grains / MOIETYI_CHUNK_GRAINS;
    return needed < 3 || (needed - 1 <= MOIETYI_WORD_BITS &&
                          moietyi_word_has_run(whole, (unsigned)needed - 1));
}

/* Of the chunks of a page, those that can be part of a run that is long enough:
 * all, or only what is free at the page's two ends, each with the chunk next to
 * it, of which a part may belong to it. */
static uint64_t units_worth_it(const struct scan *scan, uint64_t whole)
{
    uint64_t taken = ~whole;
    if (!taken || may_fit_inside(scan, whole))
        return MOIETYI_WORD_FULL;
    unsigned low = moietyi_word_lowest(taken);
    unsigned high = (unsigned)__builtin_clzll(taken);
    return moietyi_word_run(0, low + 1) |
           moietyi_word_run(MOIETYI_WORD_BITS - 1 - high, high + 1);
}

static void scan_page(struct scan *scan, moietyi_page page)
{
    const struct moietyi_view *view = scan->view;
    struct moietyi_page_words words = moietyi_page_words_of(
        view->maps, view->is_own_only ? NULL : view->buddy, page);
    uint64_t chunks = moietyi_page_words_chunks(&words);
    uint64_t cut_twice;
    uint64_t cut = moietyi_page_words_cut(&words, &cut_twice);
    uint64_t units = chunks | (scan->is_thorough ? MOIETYI_WORD_FULL : cut);
    run_add_page(&scan->run, fit_end_run, &words,
                 (uint64_t)page.index * MOIETYI_PAGE_GRAINS, chunks,
                 units & units_worth_it(scan, chunks | cut_twice),
                 scan->want.grains > MOIETYI_CHUNK_GRAINS);
}

static void scan_group(struct scan *scan, uint32_t group)
{
    scan->group = group;
    scan->own = moietyi_maps_group_at(scan->view->maps, group);
    uint64_t whole = free_pages(scan);
    uint64_t units = whole | open_pages(scan, whole);
    while (units && !is_tight(scan)) {
        unsigned bit = moietyi_word_lowest(units);
        moietyi_page page = {group * MOIETYI_WORD_BITS + bit};
        if (whole >> bit & 1) {
            unsigned length;
            units &= ~moietyi_word_first_run(whole & units, &bit, &length);
            run_add(&scan->run, fit_end_run,
                    (uint64_t)page.index * MOIETYI_PAGE_GRAINS,
                    (uint64_t)length * MOIETYI_PAGE_GRAINS);
            continue;
        }
        scan_page(scan, page);
        units &= units - 1;
    }
}

/* The start of the best fit; false: there is none. */
static bool fit_find(struct scan *scan, moietyi_grain *out)
{
    const struct moietyi_view *view = scan->view;
    uint32_t groups = moietyi_page_word_limit(view->buddy);
    scan->run = (struct moietyi_run){0, 0};
    scan->best = (struct moietyi_run){0, 0};
    for (uint32_t i = 0; i < groups && !is_tight(scan); i++)
        scan_group(scan, i);
    run_end(&scan->run, fit_end_run);
    *out = moietyi_grain_at(moietyi_run_begin(&scan->best, &scan->want));
    return scan->best.grains != 0;
}

static bool find_and_claim(struct scan *scan, unsigned tries,
                           bool *out_is_there, moietyi_grain *out)
{
    *out_is_there = true;
    while (tries-- && (*out_is_there = fit_find(scan, out)))
        if (moietyi_view_claim(scan->view, *out, scan->want.grains))
            return true;
    return false;
}

/* Best fit of all maps, with or without the run lock. */
static bool take_best(struct scan *scan, moietyi_grain *out)
{
    struct moietyi_buddy *buddy = scan->view->buddy;
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
    MOIETYI_STEP("locked.view");
    bool is_taken = find_and_claim(scan, TRIES, &is_there, out);
    pthread_mutex_unlock(&buddy->run_lock);
    atomic_fetch_sub_explicit(&buddy->contended_runs, 1, memory_order_relaxed);
    return is_taken;
}

bool moietyi_view_take_best(const struct moietyi_view *view, uint64_t grains,
                            uint32_t alignment, bool is_thorough,
                            moietyi_grain *out)
{
    struct scan scan = {
        .view = view, .want = {grains, alignment}, .is_thorough = is_thorough};
    return take_best(&scan, out);
}

bool moietyi_view_take(const struct moietyi_view *view, uint64_t grains,
                       uint32_t alignment, moietyi_grain *out)
{
    return moietyi_view_take_good(view, grains, alignment, out) ||
           moietyi_view_take_best(view, grains, alignment, false, out);
}
