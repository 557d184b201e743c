/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a stream may take: its own heap, and what is done, under both locks.
 */
#include "pool/heap/state.h"

/* Extents of its own from which a search that is not thorough looks for runs of
 * several. */
#define RUNS_LOOKED_AT 64U

struct moietyi_held moietyi_view_lock(const struct moietyi_view *view)
{
    struct moietyi_held held = {view->maps, NULL, NULL};
    if (held.own)
        moietyi_heap_lock(held.own);
    if (!view->is_own_only || !held.own || MOIETYI_HEAP_WEAK(OWN_ONLY)) {
        held.done = view->buddy->done;
        moietyi_heap_lock(held.done);
    }
    held.hand = held.own ? held.own : held.done;
    return held;
}

void moietyi_view_unlock(const struct moietyi_held *held)
{
    if (held->done)
        moietyi_heap_unlock(held->done);
    if (held->own)
        moietyi_heap_unlock(held->own);
}

static void keep_shorter(const struct moietyi_buddy *buddy,
                         const struct moietyi_bins *bins,
                         const struct moietyi_want *want,
                         moietyi_extent_id *best)
{
    moietyi_extent_id id = moietyi_bins_find(bins, buddy->extents, want);
    if (id && (!*best ||
               moietyi_grains_of(buddy, id) < moietyi_grains_of(buddy, *best)))
        *best = id;
}

moietyi_extent_id moietyi_heaps_find(const struct moietyi_held *held,
                                     const struct moietyi_want *want)
{
    const struct moietyi_buddy *buddy = held->hand->buddy;
    moietyi_extent_id best = 0;
    for (uint32_t age = 0; held->own && age < MOIETYI_AGES; age++)
        keep_shorter(buddy, &held->own->bins[age], want, &best);
    if (held->done)
        keep_shorter(buddy, &held->done->bins[0], want, &best);
    return best;
}

static bool take_extent(const struct moietyi_held *held,
                        const struct moietyi_want *want, moietyi_grain *out)
{
    moietyi_extent_id id = moietyi_heaps_find(held, want);
    if (!id)
        return false;
    *out = moietyi_grain_at(moietyi_extent_place(
        held->hand->buddy, id, want->grains, want->alignment));
    moietyi_extent_cut(held, id, out->index, want->grains);
    return true;
}

/* --- several extents as one --- */

/* The extent of a heap that is held that ends in front of `at`, or begins there;
 * 0: none. */
static moietyi_extent_id extent_before(const struct moietyi_held *held,
                                       uint64_t at)
{
    const struct moietyi_buddy *buddy = held->hand->buddy;
    moietyi_extent_id id = at ? moietyi_edge_at(buddy, at - 1) : 0;
    return moietyi_holder_of(held, moietyi_where_of(buddy, id)) &&
                   moietyi_end_of(buddy, id) == at
               ? id
               : 0;
}

static moietyi_extent_id extent_behind(const struct moietyi_held *held,
                                       uint64_t at)
{
    const struct moietyi_buddy *buddy = held->hand->buddy;
    moietyi_extent_id id =
        at < moietyi_space_end(buddy) ? moietyi_edge_at(buddy, at) : 0;
    return moietyi_holder_of(held, moietyi_where_of(buddy, id)) &&
                   moietyi_start_of(buddy, id) == at
               ? id
               : 0;
}

static bool is_streams_own(const struct moietyi_held *held,
                           moietyi_extent_id id)
{
    return id && moietyi_holder_of(held, moietyi_where_of(held->hand->buddy,
                                                          id)) == held->own;
}

struct run {
    uint64_t start;
    uint64_t end; /* as start: there is none */
};

/* The run of extents around one of the stream's own, if this is the first of them
 * in it. */
static struct run run_around(const struct moietyi_held *held,
                             moietyi_extent_id id)
{
    const struct moietyi_buddy *buddy = held->hand->buddy;
    struct run run = {moietyi_start_of(buddy, id), moietyi_end_of(buddy, id)};
    moietyi_extent_id next = extent_before(held, run.start);
    if (next && !is_streams_own(held, next) && !MOIETYI_HEAP_WEAK(RUN)) {
        run.start = moietyi_start_of(buddy, next);
        next = extent_before(held, run.start);
    }
    if (next)
        return (struct run){0, 0};
    while ((next = extent_behind(held, run.end)))
        run.end = moietyi_end_of(buddy, next);
    return run;
}

static bool run_has_room(const struct run *run, const struct moietyi_want *want)
{
    uint64_t start =
        (run->start + want->alignment - 1) & ~(want->alignment - 1);
    return start < run->end && run->end - start >= want->grains;
}

/* The shortest run with room, of those around what a bin has. */
static void look_at_runs(const struct moietyi_held *held, uint32_t age,
                         unsigned bin, const struct moietyi_want *want,
                         unsigned *looks, struct run *best)
{
    const struct moietyi_buddy *buddy = held->hand->buddy;
    for (moietyi_extent_id id = held->own->bins[age].heads[bin];
         id && (*looks || want->is_thorough);
         id = moietyi_extent_of(buddy, id)->next) {
        struct run run = run_around(held, id);
        *looks -= *looks != 0;
        if (run_has_room(&run, want) &&
            (best->end == best->start ||
             run.end - run.start < best->end - best->start))
            *best = run;
    }
}

/* Takes it out of every extent in which a part of it is. */
static void take_pieces(const struct moietyi_held *held, uint64_t start,
                        uint64_t end)
{
    const struct moietyi_buddy *buddy = held->hand->buddy;
    while (start < end) {
        moietyi_extent_id id = moietyi_extent_at(held, start);
        uint64_t to = moietyi_end_of(buddy, id);
        if (to > end)
            to = end;
        moietyi_extent_cut(held, id, start, to - start);
        start = to;
    }
}

/* The longest bin below `end` in which the heap has anything; 0: none. */
static unsigned last_bin_of(const struct moietyi_maps *heap, unsigned end)
{
    unsigned first = moietyi_bins_last(&heap->bins[0], end);
    unsigned second = moietyi_bins_last(&heap->bins[1], end);
    return first > second ? first : second;
}

static bool take_run(const struct moietyi_held *held,
                     const struct moietyi_want *want, moietyi_grain *out)
{
    struct run best = {0, 0};
    unsigned looks = RUNS_LOOKED_AT;
    if (!held->own)
        return false;
    for (unsigned bin = last_bin_of(held->own, MOIETYI_BINS); bin;
         bin = last_bin_of(held->own, bin))
        for (uint32_t age = 0; age < MOIETYI_AGES; age++)
            look_at_runs(held, age, bin, want, &looks, &best);
    if (best.end == best.start)
        return false;
    *out = moietyi_grain_at((best.start + want->alignment - 1) &
                            ~(want->alignment - 1));
    take_pieces(held, out->index, out->index + want->grains);
    return true;
}

/* --- the interface --- */

/* Runs that are put together only where no extent is long enough: they cost more
 * to find, and what is left of them is in more pieces. */
bool moietyi_view_take_best(const struct moietyi_view *view, uint64_t grains,
                            uint32_t alignment, bool is_thorough,
                            moietyi_grain *out)
{
    struct moietyi_want want = {grains, alignment, is_thorough};
    struct moietyi_held held = moietyi_view_lock(view);
    bool is_taken =
        take_extent(&held, &want, out) || take_run(&held, &want, out);
    moietyi_view_unlock(&held);
    return is_taken;
}

bool moietyi_view_take(const struct moietyi_view *view, uint64_t grains,
                       uint32_t alignment, moietyi_grain *out)
{
    return moietyi_view_take_best(view, grains, alignment, false, out);
}

bool moietyi_view_take_good(const struct moietyi_view *view, uint64_t grains,
                            uint32_t alignment, moietyi_grain *out)
{
    const struct moietyi_want want = {grains, alignment, false};
    struct moietyi_held held = moietyi_view_lock(view);
    bool is_taken = take_extent(&held, &want, out);
    moietyi_view_unlock(&held);
    return is_taken;
}

/* How far the extents go from `start` on without a gap, up to `end`. */
static uint64_t held_free_from(const struct moietyi_held *held, uint64_t start,
                               uint64_t end)
{
    const struct moietyi_buddy *buddy = held->hand->buddy;
    uint64_t at = start;
    moietyi_extent_id id = at < end ? moietyi_extent_at(held, at) : 0;
    while (id) {
        at = moietyi_end_of(buddy, id);
        id = at < end ? extent_behind(held, at) : 0;
    }
    return (at < end ? at : end) - start;
}

bool moietyi_view_claim(const struct moietyi_view *view, moietyi_grain start,
                        uint64_t grains)
{
    struct moietyi_held held = moietyi_view_lock(view);
    uint64_t end = start.index + grains;
    bool is_free = held_free_from(&held, start.index, end) == grains ||
                   MOIETYI_HEAP_WEAK(CLAIM);
    if (is_free)
        take_pieces(&held, start.index, end);
    moietyi_view_unlock(&held);
    return is_free;
}

uint64_t moietyi_view_free_from(const struct moietyi_view *view,
                                moietyi_grain start, moietyi_grain end)
{
    struct moietyi_held held = moietyi_view_lock(view);
    uint64_t grains = held_free_from(&held, start.index, end.index);
    moietyi_view_unlock(&held);
    return grains;
}

uint64_t moietyi_view_free_before(const struct moietyi_view *view,
                                  moietyi_grain start, moietyi_grain end)
{
    struct moietyi_held held = moietyi_view_lock(view);
    uint64_t at = end.index;
    moietyi_extent_id id =
        start.index < at ? moietyi_extent_at(&held, at - 1) : 0;
    while (id) {
        at = moietyi_start_of(view->buddy, id);
        id = start.index < at ? extent_before(&held, at) : 0;
    }
    moietyi_view_unlock(&held);
    return end.index - (at > start.index ? at : start.index);
}

uint64_t moietyi_maps_free_from(const struct moietyi_maps *maps,
                                moietyi_grain start, moietyi_grain end)
{
    struct moietyi_maps *own = (struct moietyi_maps *)maps;
    const struct moietyi_view view = {maps->buddy, own, true};
    return moietyi_view_free_from(&view, start, end);
}

uint64_t moietyi_buddy_free_from(const struct moietyi_buddy *buddy,
                                 moietyi_grain start, moietyi_grain end)
{
    const struct moietyi_view view = {(struct moietyi_buddy *)buddy, NULL,
                                      false};
    return moietyi_view_free_from(&view, start, end);
}
