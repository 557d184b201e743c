/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The extent that fits best. Extents that touch, of a stream's two ages and of
 * DONE, are one run for a caller that may take from all of them. An interval is
 * cut from the shortest run, not from the shortest extent, because otherwise
 * large runs break into pieces.
 */
#include "pool/heap/records.h"

/* Extents of one bin that a search looks at, for a short interval and a long
 * one; and of the bin in which some are too short, if no higher bin has any. */
#define LOOKS_SHORT 2U
#define LOOKS 6U
#define LOOKS_LAST 128U
/* Neighbours that are looked at on each side. */
#define NEIGHBOURS 2U

/* --- how long a run is --- */

static bool is_of_view(uint64_t where, uint32_t owner)
{
    return moietyi_where_owner(where) == owner ||
           moietyi_where_owner(where) == MOIETYI_OWNER_DONE;
}

/* The free grains around an extent that its owner may take, as a hint: another
 * thread may have DONE's lock. */
static uint64_t run_grains_of(const struct moietyi_space *space, uint32_t owner,
                              uint64_t start, uint64_t end)
{
    moietyi_extent_id id;
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        id = moietyi_extent_before(space, start);
        uint64_t where = moietyi_where_of(space, id);
        if (!id || !is_of_view(where, owner))
            break;
        start = moietyi_where_start(where);
    }
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        id = moietyi_extent_behind(space, end);
        if (!id || !is_of_view(moietyi_where_of(space, id), owner))
            break;
        end += moietyi_grains_of(space, id);
    }
    return end - start;
}

/* --- the search --- */

static bool has_room(uint64_t start, uint64_t grains,
                     const struct moietyi_want *want)
{
    uint64_t skipped =
        MOIETYI_HEAP_WEAK(ALIGNMENT) ? 0 : -start & (want->alignment - 1);
    return grains >= skipped && grains - skipped >= want->grains;
}

static void look(const struct moietyi_space *space, moietyi_extent_id id,
                 const struct moietyi_want *want, struct moietyi_fit *best)
{
    uint64_t grains = moietyi_grains_of(space, id);
    uint64_t start = moietyi_start_of(space, id);
    if (!has_room(start, grains, want))
        return;
    uint64_t run =
        want->grains < MOIETYI_LONG_GRAINS
            ? grains
            : run_grains_of(space, want->owner, start, start + grains);
    if (!best->id || (run < best->run && !MOIETYI_HEAP_WEAK(BEST)) ||
        (run == best->run && start < best->start))
        *best = (struct moietyi_fit){id, run, start};
}

static inline void look_in_bin(const struct moietyi_heap *heap, uint32_t age,
                               unsigned bin, const struct moietyi_want *want,
                               unsigned looks, struct moietyi_fit *best)
{
    const struct moietyi_space *space = heap->space;
    for (moietyi_extent_id id = heap->bins[age].heads[bin];
         id && (looks || want->is_thorough);
         id = moietyi_extent_of(space, id)->next) {
        look(space, id, want, best);
        looks -= looks != 0;
        if (best->run == want->grains)
            break;
    }
}

/* The best fit of an age, if it is better than `best`: from the first bin with
 * a fit, otherwise from more of the bin in which some are too short. */
static void find_of_age(const struct moietyi_heap *heap, uint32_t age,
                        const struct moietyi_want *want,
                        struct moietyi_fit *best)
{
    const struct moietyi_bins *bins = &heap->bins[age];
    unsigned first = moietyi_bin_of(want->grains);
    unsigned looks = want->grains < MOIETYI_LONG_GRAINS ? LOOKS_SHORT : LOOKS;
    struct moietyi_fit found = {0};
    for (unsigned bin = first; bin <= MOIETYI_BINS && !found.id; bin++) {
        bin = moietyi_bins_next(bins, bin);
        bool is_last = bin == MOIETYI_BINS;
        if (!is_last || !want->is_thorough)
            look_in_bin(heap, age, is_last ? first : bin, want,
                        is_last ? LOOKS_LAST : looks, &found);
    }
    if (found.id && (!best->id || found.run < best->run))
        *best = found;
}

/* Most ages are empty. */
static inline void find_of(const struct moietyi_heap *heap, uint32_t age,
                           const struct moietyi_want *want,
                           struct moietyi_fit *best)
{
    if (moietyi_sum_of(heap, age) && best->run != want->grains)
        find_of_age(heap, age, want, best);
}

/* Whether DONE may have a shorter run than this, by bins: a hint. */
static bool may_fit_better(const struct moietyi_heap *done,
                           const struct moietyi_want *want, uint64_t run)
{
    return moietyi_bins_next(&done->bins[0], moietyi_bin_of(want->grains)) <
           moietyi_bin_of(run);
}

/* Locks DONE's heap too if that may have a better fit. A stream with a fit of
 * its own waits for the lock only if the fit would be split: otherwise many
 * streams would break up their long extents. */
static bool add_done(struct moietyi_held *held, const struct moietyi_want *want,
                     const struct moietyi_fit *own)
{
    struct moietyi_heap *done = held->own->space->done;
    if (own->id && !may_fit_better(done, want, own->run))
        return false;
    if (!own->id ||
        (own->run >= 2 * want->grains && own->run >= MOIETYI_LONG_GRAINS))
        moietyi_heap_lock(done);
    else if (!moietyi_heap_try_lock(done))
        return false;
    held->done = done;
    return true;
}

void moietyi_view_find(struct moietyi_held *held,
                       const struct moietyi_want *want, struct moietyi_fit *out)
{
    struct moietyi_fit best = {0};
    if (held->own) {
        find_of(held->own, 0, want, &best);
        find_of(held->own, 1, want, &best);
        if (!want->is_own_only && add_done(held, want, &best))
            find_of(held->done, 0, want, &best);
    } else {
        find_of(held->done, 0, want, &best);
    }
    *out = best;
}

/* --- several --- */

/* Extents from which one call takes intervals. */
#define EXTENTS_MOST 8U

/* An extent for the next interval, without a long search: the head of the
 * shortest bin in which all have room, or of the bin in which some have if it
 * has room. */
static moietyi_extent_id next_of(const struct moietyi_heap *heap,
                                 const struct moietyi_want *want)
{
    unsigned first = moietyi_bin_of(want->grains);
    moietyi_extent_id found = 0;
    unsigned best = MOIETYI_BINS;
    for (uint32_t age = 0; age < MOIETYI_AGES; age++) {
        const struct moietyi_bins *bins = &heap->bins[age];
        if (!moietyi_sum_of(heap, age))
            continue;
        unsigned bin = moietyi_bins_next(bins, first);
        if (bin == first &&
            moietyi_grains_of(heap->space, bins->heads[bin]) < want->grains)
            bin = moietyi_bins_next(bins, first + 1);
        if (bin < best) {
            best = bin;
            found = bins->heads[bin];
        }
    }
    return found;
}

static moietyi_extent_id next_or_last_of(const struct moietyi_held *held,
                                         const struct moietyi_want *want)
{
    struct moietyi_held here = *held;
    struct moietyi_want own = *want;
    struct moietyi_fit fit = {next_of(held->hand, want), 0, 0};
    own.is_own_only = true;
    if (!fit.id)
        moietyi_view_find(&here, &own, &fit);
    return fit.id;
}

uint32_t moietyi_take_intervals(const struct moietyi_held *held,
                                const struct moietyi_want *want,
                                moietyi_extent_id id, uint32_t count,
                                moietyi_grain *out)
{
    const struct moietyi_space *space = held->hand->space;
    uint32_t taken = 0;
    /* Those between two others need a record each. */
    if (want->alignment > 1)
        count = 1;
    for (unsigned i = 0; id && i < EXTENTS_MOST; i++) {
        uint64_t here =
            count == 1 ? 1 : moietyi_grains_of(space, id) / want->grains;
        if (here > count - taken)
            here = count - taken;
        uint64_t grains = here * want->grains;
        uint64_t start =
            moietyi_extent_place(space, id, grains, want->alignment);
        moietyi_extent_cut(held, id, start, grains);
        for (uint64_t at = 0; at < here; at++)
            out[taken++] = moietyi_grain_at(start + at * want->grains);
        id = taken < count ? next_or_last_of(held, want) : 0;
    }
    return taken;
}
