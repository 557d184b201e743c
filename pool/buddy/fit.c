/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The best fit among the free runs of a view, whose maps are read as one: a run
 * may be made of pages of one map, chunks of a second and grains of a third.
 * The search goes by groups of 64 pages first. It looks into a page that is not
 * free as a whole only where what is free in it can be part of a run that is
 * long enough, and there by chunks first.
 *
 * A bound for each page (bound.h) says where a look is in vain; there is none for
 * what a stream's own maps and what is done have together. So where many threads
 * search, or where there is much memory, they look through the two apart, and do
 * not meet in their own; only what neither has is put together from both.
 *
 * What a search finds is a snapshot, and the claim decides. Two claims may each
 * take what the other needs, give it back and meet again; so a search that has
 * failed often has the run lock, and others respect that.
 */
#include "pool/buddy/map_state.h"

#define FREE_TRIES 8U
/* A fit in the stream's own maps that leaves at most this part of what is needed
 * is as good as the best of all. */
#define TIGHT_PART 16U
#define TRIES 64U

struct run {
    uint64_t start;
    uint64_t grains; /* 0: none */
};

struct scan {
    const struct binadei_view *view;
    uint64_t needed; /* grains */
    uint64_t alignment;
    bool is_thorough;
    bool is_exact; /* only a fit that leaves nothing over ends it */
    uint32_t group;
    struct binadei_maps_group *own; /* of the group, or NULL */
    uint64_t own_open;  /* its pages where the stream may have something */
    uint64_t done_open; /* and where something may be done */
    struct run run;     /* what is being put together */
    struct run best;
    /* Of the page that is scanned: */
    bool is_ends_only;      /* nothing is long enough within it */
    struct run run_in_page; /* what is being put together within it */
    uint64_t longest_in_page;
};

static bool fits(const struct scan *scan, const struct run *run)
{
    uint64_t skipped = -run->start & (scan->alignment - 1);
    return run->grains >= scan->needed + skipped;
}

/* Whether a fit leaves so little over that no better one is worth a look. */
static bool is_tight(const struct scan *scan, const struct run *run)
{
    uint64_t rest = scan->is_exact ? 0 : scan->needed / TIGHT_PART;
    return run->grains && run->grains <= scan->needed + rest;
}

/* A tight fit stays, as the lowest one. */
static void end_run(struct scan *scan)
{
    const struct run *run = &scan->run;
    if (run->grains >= scan->needed && fits(scan, run) &&
        !is_tight(scan, &scan->best) &&
        (!scan->best.grains || run->grains < scan->best.grains))
        scan->best = *run;
    scan->run.grains = 0;
}

/* Joins free grains to the run that they follow, or begins another. */
static void add_free(struct scan *scan, uint64_t start, uint64_t grains)
{
    if (scan->run.start + scan->run.grains != start) {
        end_run(scan);
        scan->run.start = start;
    }
    scan->run.grains += grains;
}

/* The same for a part of the page that is scanned. */
static void add_in_page(struct scan *scan, uint64_t start, uint64_t grains)
{
    struct run *run = &scan->run_in_page;
    add_free(scan, start, grains);
    if (run->start + run->grains == start)
        run->grains += grains;
    else
        *run = (struct run){start, grains};
    if (run->grains > scan->longest_in_page)
        scan->longest_in_page = run->grains;
}

/* The loads below are a snapshot. LB: after the mark, by order of seq_cst. */
#define OWN(scan, word)                                                        \
    ((scan)->own                                                               \
         ? binadei_load_seq_cst(&(scan)->own->ages[BINADEI_FRESH].word) |      \
               binadei_load_seq_cst(&(scan)->own->ages[BINADEI_AGEING].word)   \
         : 0)

static uint64_t done_word(const struct scan *scan,
                          const binadei_atomic_word *word)
{
    return scan->view->is_own_only ? 0 : binadei_load_seq_cst(word);
}

static uint64_t free_pages(const struct scan *scan)
{
    const struct binadei_group_state *done =
        &scan->view->buddy->groups[scan->group];
    return done_word(scan, &done->free_pages) | OWN(scan, pages);
}

/* Those of the group that were ever added. */
static uint64_t pages_in_use(const struct scan *scan)
{
    uint32_t count =
        binadei_page_limit(scan->view->buddy) - scan->group * BINADEI_WORD_BITS;
    return count < BINADEI_WORD_BITS ? binadei_word_run(0, count)
                                     : BINADEI_WORD_FULL;
}

/* Pages that may have chunks or grains. */
static void look_up_open_pages(struct scan *scan)
{
    const struct binadei_group_state *done =
        &scan->view->buddy->groups[scan->group];
    scan->own_open = OWN(scan, open);
    scan->done_open = done_word(scan, &done->chunk_pages[0]) |
                      done_word(scan, &done->grain_pages[0]);
    if (scan->is_thorough)
        scan->own_open = scan->done_open = pages_in_use(scan);
}

static uint64_t free_chunks(const struct scan *scan, binadei_page page)
{
    return done_word(scan, &scan->view->buddy->pages[page.index].word) |
           OWN(scan, chunks[page.index % BINADEI_WORD_BITS]);
}

/* Chunks that may have grains. */
static uint64_t cut_chunks(const struct scan *scan, binadei_page page)
{
    if (scan->is_thorough)
        return BINADEI_WORD_FULL;
    return done_word(scan,
                     &scan->view->buddy->pages[page.index].chunk_summary[0]) |
           OWN(scan, cut[page.index % BINADEI_WORD_BITS]);
}

/* Chunks of which several maps may have grains, which together may be all. */
static uint64_t cut_twice(const struct scan *scan, binadei_page page)
{
    unsigned bit = page.index % BINADEI_WORD_BITS;
    if (!scan->own)
        return 0;
    uint64_t fresh =
        binadei_load_seq_cst(&scan->own->ages[BINADEI_FRESH].cut[bit]);
    uint64_t ageing =
        binadei_load_seq_cst(&scan->own->ages[BINADEI_AGEING].cut[bit]);
    uint64_t done =
        done_word(scan, &scan->view->buddy->pages[page.index].chunk_summary[0]);
    return (fresh & ageing) | (fresh & done) | (ageing & done);
}

static uint64_t free_grains(const struct scan *scan, binadei_chunk chunk)
{
    uint64_t word =
        done_word(scan, &scan->view->buddy->chunk_words[chunk.index]);
    unsigned page_bit = binadei_page_of_chunk(chunk).index % BINADEI_WORD_BITS;
    const struct binadei_maps_page *own =
        scan->own ? binadei_maps_page_at(scan->own, page_bit) : NULL;
    unsigned bit = binadei_chunk_bit(chunk);
    return own ? word | binadei_load_seq_cst(&own->grains[BINADEI_FRESH][bit]) |
                     binadei_load_seq_cst(&own->grains[BINADEI_AGEING][bit])
               : word;
}

static void add_runs(struct scan *scan, uint64_t base, uint64_t unit,
                     uint64_t word)
{
    while (word) {
        unsigned start;
        unsigned length;
        word &= ~binadei_word_first_run(word, &start, &length);
        add_in_page(scan, base + start * unit, length * unit);
    }
}

/* The part of a word that can be in a run that is longer than the word: what
 * begins at its lowest bit or ends at its highest. */
static uint64_t ends_of(uint64_t word)
{
    uint64_t inner = ~word;
    if (!inner)
        return word;
    unsigned low = binadei_word_lowest(inner);
    unsigned high = (unsigned)__builtin_clzll(inner);
    return (low ? binadei_word_run(0, low) : 0) |
           (high ? binadei_word_run(BINADEI_WORD_BITS - high, high) : 0);
}

/* Whether a run that is long enough may be within the page: enough `whole`
 * chunks are in a row, or the chunks do not tell. */
static bool may_fit_inside(const struct scan *scan, uint64_t whole)
{
    uint64_t needed = scan->needed / BINADEI_CHUNK_GRAINS;
    return needed < 3 || (needed - 1 <= BINADEI_WORD_BITS &&
                          binadei_word_has_run(whole, (unsigned)needed - 1));
}

/* Of the chunks of a page, those that can be part of a run that is long enough:
 * all, or only what is free at the page's two ends, each with the chunk next to
 * it, of which a part may belong to it. */
static uint64_t units_worth_it(const struct scan *scan, uint64_t whole)
{
    uint64_t taken = ~whole;
    if (!taken || (!scan->is_ends_only && may_fit_inside(scan, whole)))
        return BINADEI_WORD_FULL;
    unsigned low = binadei_word_lowest(taken);
    unsigned high = (unsigned)__builtin_clzll(taken);
    return binadei_word_run(0, low + 1) |
           binadei_word_run(BINADEI_WORD_BITS - 1 - high, high + 1);
}

/* The longest run that may be in what is passed over: where all chunks are
 * looked at, a part of one; else some chunks, and a part of one at each end. What
 * is done may have words that are left open though they are full. */
static uint64_t longest_passed(const struct scan *scan, binadei_page page,
                               uint64_t whole, uint64_t worth_it)
{
    if (worth_it == BINADEI_WORD_FULL)
        return scan->needed > BINADEI_CHUNK_GRAINS ? BINADEI_CHUNK_GRAINS : 0;
    whole |=
        done_word(scan, &scan->view->buddy->pages[page.index].chunk_summary[2]);
    return (binadei_word_longest(whole) + UINT64_C(2)) * BINADEI_CHUNK_GRAINS;
}

static void scan_units(struct scan *scan, binadei_page page)
{
    uint64_t chunks = free_chunks(scan, page);
    uint64_t whole = chunks | cut_twice(scan, page);
    uint64_t worth_it = units_worth_it(scan, whole);
    uint64_t units = (chunks | cut_chunks(scan, page)) & worth_it;
    bool is_longer_than_chunk = scan->needed > BINADEI_CHUNK_GRAINS;
    scan->longest_in_page = longest_passed(scan, page, whole, worth_it);
    while (units) {
        unsigned bit = binadei_word_lowest(units);
        binadei_chunk chunk = binadei_chunk_in_page(page, bit);
        uint64_t base = chunk.index * BINADEI_CHUNK_GRAINS;
        if (chunks >> bit & 1) {
            unsigned length;
            units &= ~binadei_word_first_run(chunks & units, &bit, &length);
            add_in_page(scan, base, (uint64_t)length * BINADEI_CHUNK_GRAINS);
            continue;
        }
        uint64_t grains = free_grains(scan, chunk);
        add_runs(scan, base, 1,
                 is_longer_than_chunk ? ends_of(grains) : grains);
        units &= units - 1;
    }
}

/* The bounds of what the view has of a page, or NULL: a run that is put together
 * from the stream's own and what is done has none. */
static struct binadei_bounds *bounds_at(const struct scan *scan,
                                        unsigned page_bit)
{
    struct binadei_bounds *done =
        &scan->view->buddy->groups[scan->group].bounds;
    struct binadei_bounds *own = scan->own ? &scan->own->bounds : NULL;
    bool is_own = scan->own_open >> page_bit & 1 && own;
    bool is_done = scan->done_open >> page_bit & 1;
    if (scan->is_thorough)
        return NULL;
    if (is_own && is_done)
        return !binadei_bound_of(&done->of[page_bit])  ? own
               : !binadei_bound_of(&own->of[page_bit]) ? done
                                                       : NULL;
    return is_own ? own : done;
}

static uint64_t bound_of(const struct scan *scan, unsigned page_bit)
{
    const struct binadei_bounds *bounds = bounds_at(scan, page_bit);
    return bounds ? binadei_bound_of(&bounds->of[page_bit])
                  : BINADEI_PAGE_GRAINS;
}

static void scan_page(struct scan *scan, binadei_page page)
{
    unsigned bit = page.index % BINADEI_WORD_BITS;
    struct binadei_bounds *bounds = bounds_at(scan, bit);
    struct binadei_look look = {0, 0};
    scan->is_ends_only =
        bounds && binadei_bound_of(&bounds->of[bit]) < scan->needed;
    /* Then there is nothing to learn. */
    if (scan->is_ends_only)
        bounds = NULL;
    if (bounds)
        look = binadei_bound_look(&bounds->of[bit]);
    scan->run_in_page = (struct run){0, 0};
    scan_units(scan, page);
    BINADEI_STEP("fit.looked");
    if (bounds)
        binadei_bound_note(bounds, bit, look, scan->longest_in_page);
}

/* Open pages of which a part may belong to a run of so many grains within them:
 * what the stream's own and what is done have together may have any. */
static uint64_t may_have(const struct scan *scan, uint64_t grains)
{
    const struct binadei_bounds *done =
        &scan->view->buddy->groups[scan->group].bounds;
    uint64_t pages = scan->own_open & scan->done_open;
    if (scan->done_open)
        pages |= scan->done_open & binadei_bound_may_reach(done, grains);
    if (!scan->own)
        return pages | scan->own_open;
    return pages | (scan->own_open &
                    binadei_bound_may_reach(&scan->own->bounds, grains));
}

/* A bit where one page of two neighbours is in `these` and the other in `those`:
 * the lower one's. */
static uint64_t neighbours(uint64_t these, uint64_t those)
{
    return (these & those >> 1) | (those & these >> 1);
}

/* Pages that are part of a run over a border between two of the group: one of
 * the two is whole, as it may be of both maps together; or it has half of what is
 * needed, and the other one the rest. */
static uint64_t pages_at_borders(const struct scan *scan, uint64_t whole,
                                 uint64_t open)
{
    uint64_t needed = scan->needed;
    uint64_t pairs =
        neighbours(whole | (scan->own_open & scan->done_open), whole | open);
    if (needed <= BINADEI_PAGE_GRAINS)
        pairs |= neighbours(may_have(scan, needed / 2), open);
    else if (needed < UINT64_C(2) * BINADEI_PAGE_GRAINS)
        pairs |= neighbours(may_have(scan, needed / 2),
                            may_have(scan, needed - BINADEI_PAGE_GRAINS));
    return pairs | pairs << 1;
}

/* Open pages that a search has to look at: those that may have a long enough run
 * alone, or with a neighbour; and the group's first and last, which go on in
 * other groups. */
static uint64_t pages_worth_it(const struct scan *scan, uint64_t whole,
                               uint64_t open)
{
    const uint64_t ends = UINT64_C(1) << (BINADEI_WORD_BITS - 1) | 1;
    if (scan->is_thorough)
        return open;
    uint64_t pages = pages_at_borders(scan, whole, open) | ends;
    if (scan->needed <= BINADEI_PAGE_GRAINS)
        pages |= may_have(scan, scan->needed);
    return pages & open;
}

/* Whether what is free in this page, which is not free as a whole, can be part
 * of a run that is long enough: alone, with the run before it, or with the page
 * behind it, of those that are free as a whole or open. */
static bool is_worth_it(const struct scan *scan, binadei_page page,
                        uint64_t whole, uint64_t open)
{
    unsigned bit = page.index % BINADEI_WORD_BITS;
    uint64_t grains = bound_of(scan, bit);
    bool is_last = bit == BINADEI_WORD_BITS - 1;
    if (scan->run.start + scan->run.grains ==
        (uint64_t)page.index * BINADEI_PAGE_GRAINS)
        grains += scan->run.grains;
    if (grains >= scan->needed || is_last || whole >> (bit + 1) & 1)
        return true;
    if (!(open >> (bit + 1) & 1))
        return false;
    uint64_t behind = bound_of(scan, bit + 1);
    /* All of it: what is behind that one may belong to the run as well. */
    return behind == BINADEI_PAGE_GRAINS || grains + behind >= scan->needed;
}

static void scan_group(struct scan *scan, uint32_t group)
{
    scan->group = group;
    scan->own = binadei_maps_group_at(scan->view->maps, group);
    look_up_open_pages(scan);
    uint64_t whole = free_pages(scan);
    uint64_t open = scan->own_open | scan->done_open;
    uint64_t units = whole | pages_worth_it(scan, whole, open);
    while (units && !is_tight(scan, &scan->best)) {
        unsigned bit = binadei_word_lowest(units);
        binadei_page page = {group * BINADEI_WORD_BITS + bit};
        if (whole >> bit & 1) {
            unsigned length;
            units &= ~binadei_word_first_run(whole & units, &bit, &length);
            add_free(scan, (uint64_t)page.index * BINADEI_PAGE_GRAINS,
                     (uint64_t)length * BINADEI_PAGE_GRAINS);
            continue;
        }
        if (is_worth_it(scan, page, whole, open))
            scan_page(scan, page);
        units &= units - 1;
    }
}

/* The start of the best fit; false: there is none. */
static bool find(struct scan *scan, binadei_grain *out)
{
    const struct binadei_view *view = scan->view;
    uint32_t groups = binadei_page_word_limit(view->buddy);
    scan->run = (struct run){0, 0};
    scan->best = (struct run){0, 0};
    for (uint32_t i = 0; i < groups && !is_tight(scan, &scan->best); i++)
        scan_group(scan, i);
    end_run(scan);
    *out = binadei_grain_at((scan->best.start + scan->alignment - 1) &
                            ~(scan->alignment - 1));
    return scan->best.grains != 0;
}

/* What the stream's own maps have alone, or what is done: a tight fit of its own,
 * or the better of the two. */
static bool take_apart(struct scan *scan, binadei_grain *out)
{
    const struct binadei_view *all = scan->view;
    const struct binadei_view views[] = {
        {.buddy = all->buddy, .maps = all->maps, .is_own_only = true},
        {.buddy = all->buddy}};
    const struct binadei_view *best_of = NULL;
    struct run best = {0, 0};
    if (!all->maps || all->is_own_only)
        return false;
    for (unsigned i = 0; i < 2 && !is_tight(scan, &best); i++) {
        binadei_grain start;
        scan->view = &views[i];
        if (!find(scan, &start) ||
            (best.grains && best.grains <= scan->best.grains))
            continue;
        best = scan->best;
        best_of = scan->view;
        *out = start;
    }
    scan->view = all;
    return best_of && binadei_view_claim(best_of, *out, scan->needed);
}

static bool find_and_claim(struct scan *scan, unsigned tries,
                           bool *out_is_there, binadei_grain *out)
{
    *out_is_there = true;
    while (tries-- && (*out_is_there = find(scan, out)))
        if (binadei_view_claim(scan->view, *out, scan->needed))
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
    struct scan scan = {.view = view,
                        .needed = grains,
                        .alignment = alignment,
                        .is_thorough = is_thorough,
                        .is_exact =
                            grains > BINADEI_PAGE_GRAINS && !view->is_apart};
    return (view->is_apart && !is_thorough && take_apart(&scan, out)) ||
           take_best(&scan, out);
}
