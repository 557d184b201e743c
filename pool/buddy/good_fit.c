/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A good fit by the index: of the lowest bin in which a page has a run that is
 * long enough, in the stream's own maps or in what is done, the best of a few
 * pages. A search takes a page's bit off before it looks there, so that others go
 * elsewhere, and notes all runs that it sees and leaves.
 */
#include "pool/buddy/extent.h"

/* Pages with runs that a search looks at before it gives up, and in the first
 * bin, where they may be too short; and those that have a fit. */
#define VISITS 36U
#define FIRST_VISITS 12U
#define FITS 4U
/* Pages in all: one from which everything has gone costs a few loads, once. */
#define LOOKS 1024U

#define KINDS 2U

struct visit {
    const struct binadei_kind *kind;
    uint64_t least; /* grains; shorter runs are not looked at */
    struct binadei_want want;
    uint64_t page_base;
    struct binadei_run run; /* what is being put together; grains of the page */
    struct binadei_run best;
    bool has_runs;
};

/* As long as the run is, in the page and beyond. */
static struct binadei_run whole_run(const struct visit *visit)
{
    uint64_t first = visit->page_base + visit->run.start;
    uint64_t last = first + visit->run.grains;
    if (visit->run.start == 0 && first)
        first = binadei_run_start(visit->kind, first);
    if (last == visit->page_base + BINADEI_PAGE_GRAINS)
        last = binadei_run_end(visit->kind, last);
    return (struct binadei_run){first, last - first};
}

/* The better one stays, the other one is noted. */
static void good_fit_end_run(struct visit *visit)
{
    if (!visit->run.grains)
        return;
    struct binadei_run run = whole_run(visit);
    visit->run.grains = 0;
    if (run.grains < visit->least)
        return;
    visit->has_runs = true;
    if (binadei_run_fits(&run, &visit->want) &&
        (!visit->best.grains || run.grains < visit->best.grains)) {
        struct binadei_run worse = visit->best;
        visit->best = run;
        run = worse;
    }
    binadei_index_note(visit->kind, run.start, run.grains);
}

static void good_fit_add_free(struct visit *visit, uint64_t start,
                              uint64_t grains)
{
    if (visit->run.start + visit->run.grains != start) {
        good_fit_end_run(visit);
        visit->run.start = start;
    }
    visit->run.grains += grains;
}

static void good_fit_add_runs(struct visit *visit, uint64_t base, uint64_t unit,
                              uint64_t word)
{
    while (word) {
        unsigned start;
        unsigned length;
        word &= ~binadei_word_first_run(word, &start, &length);
        good_fit_add_free(visit, base + start * unit, length * unit);
    }
}

/* Runs of the page, of a chunk at least, the best of them in `best`. */
static void good_fit_look(struct visit *visit, binadei_page page)
{
    struct binadei_page_words words = binadei_page_words_of(visit->kind, page);
    uint64_t chunks = binadei_page_words_any(&words, words.chunks);
    uint64_t units = chunks | binadei_page_words_any(&words, words.cut);
    visit->page_base = (uint64_t)page.index * BINADEI_PAGE_GRAINS;
    if (binadei_page_words_any(&words, words.pages) >> words.page_bit & 1)
        chunks = units = BINADEI_WORD_FULL;
    while (units) {
        unsigned bit = binadei_word_lowest(units);
        if (chunks >> bit & 1) {
            unsigned length;
            units &= ~binadei_word_first_run(chunks & units, &bit, &length);
            good_fit_add_free(visit, (uint64_t)bit * BINADEI_CHUNK_GRAINS,
                              (uint64_t)length * BINADEI_CHUNK_GRAINS);
            continue;
        }
        /* Within one chunk there is no run of a chunk. */
        good_fit_add_runs(
            visit, (uint64_t)bit * BINADEI_CHUNK_GRAINS, 1,
            binadei_word_ends(binadei_page_words_grains(&words, bit)));
        units &= units - 1;
    }
    good_fit_end_run(visit);
}

static void note_best(const struct visit *visit)
{
    if (visit->best.grains)
        binadei_index_note(visit->kind, visit->best.start, visit->best.grains);
}

/* The best fit of a visit. Where a part of it has gone meanwhile, whoever took
 * that has noted what is left, and so does the claim with what it gives back.
 */
static bool good_fit_claim(const struct visit *visit, binadei_grain *out)
{
    const struct binadei_view view = {.buddy = visit->kind->buddy,
                                      .maps = visit->kind->maps,
                                      .is_own_only = visit->kind->maps != NULL};
    *out = binadei_grain_at(binadei_run_begin(&visit->best, &visit->want));
    BINADEI_STEP("index.looked");
    return binadei_view_claim(&view, *out, visit->want.grains);
}

/* Where a search is: in the index of each kind of memory that it may take. */
struct search {
    struct binadei_kind kinds[KINDS];
    struct binadei_index_at at[KINDS];
    bool is_there[KINDS]; /* a page is at that place */
    unsigned first_bin;
    unsigned visits;
    unsigned looks;
};

static void good_fit_start(struct search *search,
                           const struct binadei_view *view, uint64_t grains)
{
    search->first_bin = binadei_index_bin(grains);
    for (unsigned i = 0; i < KINDS; i++) {
        bool is_own = i == 0;
        bool is_wanted = is_own ? view->maps != NULL : !view->is_own_only;
        search->kinds[i] =
            (struct binadei_kind){view->buddy, is_own ? view->maps : NULL};
        search->at[i] = (struct binadei_index_at){search->first_bin, 0};
        search->is_there[i] =
            is_wanted && binadei_index_find(&search->kinds[i], &search->at[i]);
    }
}

/* The kind of memory whose next page is in the lower bin; KINDS: there is no
 * page, or the search has looked at enough. */
static unsigned next_kind(struct search *search)
{
    unsigned kind =
        !search->is_there[0] ||
        (search->is_there[1] && search->at[1].bin < search->at[0].bin);
    return search->is_there[kind] && search->visits < VISITS &&
                   search->looks < LOOKS
               ? kind
               : KINDS;
}

static void go_on(struct search *search, unsigned kind)
{
    struct binadei_index_at *at = &search->at[kind];
    at->page++;
    if (at->bin == search->first_bin && search->visits >= FIRST_VISITS)
        *at = (struct binadei_index_at){at->bin + 1, 0};
    search->is_there[kind] = binadei_index_find(&search->kinds[kind], at);
}

/* The next page's best fit, in `visit`, which keeps what it says of the size. */
static void visit_next(struct search *search, unsigned kind,
                       struct visit *visit)
{
    const struct binadei_index_at *at = &search->at[kind];
    visit->kind = &search->kinds[kind];
    visit->least = binadei_index_bin_grains(at->bin);
    visit->run = visit->best = (struct binadei_run){0, 0};
    visit->has_runs = false;
    search->looks++;
    if (binadei_index_take(visit->kind, at))
        good_fit_look(visit, (binadei_page){at->page});
    search->visits += visit->has_runs;
    go_on(search, kind);
}

/* The best of a few pages of the lowest bin that has a fit. */
static bool good_fit_find(struct search *search, struct visit *best)
{
    unsigned bin = 0;
    unsigned kind;
    for (unsigned fits = 0;
         fits < FITS && (kind = next_kind(search)) < KINDS;) {
        struct visit visit = *best;
        if (best->best.grains && (search->at[kind].bin > bin ||
                                  best->best.grains - best->want.grains <=
                                      best->want.grains / BINADEI_TIGHT_PART))
            break;
        bin = search->at[kind].bin;
        visit_next(search, kind, &visit);
        if (!visit.best.grains)
            continue;
        fits++;
        if (best->best.grains && best->best.grains <= visit.best.grains) {
            note_best(&visit);
            continue;
        }
        note_best(best);
        *best = visit;
    }
    return best->best.grains != 0;
}

bool binadei_view_take_good(const struct binadei_view *view, uint64_t grains,
                            uint32_t alignment, binadei_grain *out)
{
    struct search search = {.visits = 0};
    struct visit best;
    if (grains < BINADEI_INDEX_LEAST || grains > BINADEI_INDEX_MOST / 2)
        return false;
    do {
        best = (struct visit){.want = {grains, alignment}};
        good_fit_start(&search, view, grains);
        if (!good_fit_find(&search, &best))
            return false;
    } while (!good_fit_claim(&best, out));
    return true;
}
