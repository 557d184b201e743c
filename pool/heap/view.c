/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a stream may take: memory of its own heap and of DONE's, under both
 * locks.
 */
#include "pool/base/step.h"
#include "pool/heap/combine.h"
#include "pool/heap/records.h"

/* Extents of its own around which a search that is not thorough looks for runs of
 * several: where one extent is long enough, and where none is. */
#define RUNS_BESIDE 3U
#define RUNS_LAST 64U

struct moietyi_held moietyi_view_lock(const struct moietyi_view *view)
{
    struct moietyi_held held = {view->heap, NULL, NULL};
    if (held.own)
        moietyi_heap_lock(held.own);
    if (!view->is_own_only || !held.own || MOIETYI_HEAP_WEAK(OWN_ONLY)) {
        held.done = view->space->done;
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

void moietyi_view_end(const struct moietyi_held *held)
{
    if (held->own && held->done)
        moietyi_heap_unlock(held->done);
}

static bool take_extent(const struct moietyi_held *held,
                        const struct moietyi_want *want, moietyi_extent_id id,
                        uint64_t *start)
{
    if (!id)
        return false;
    *start = moietyi_extent_place(held->hand->space, id, want->grains,
                                  want->alignment);
    moietyi_extent_cut(held, id, *start, want->grains);
    return true;
}

/* --- several extents as one --- */

/* 0: no locked heap has it. */
static moietyi_extent_id if_held(const struct moietyi_held *held,
                                 moietyi_extent_id id)
{
    return moietyi_holder_of(held, moietyi_where_of(held->hand->space, id)) ? id
                                                                            : 0;
}

static moietyi_extent_id extent_before(const struct moietyi_held *held,
                                       uint64_t at)
{
    return if_held(held, moietyi_extent_before(held->hand->space, at));
}

static moietyi_extent_id extent_behind(const struct moietyi_held *held,
                                       uint64_t at)
{
    return if_held(held, moietyi_extent_behind(held->hand->space, at));
}

static bool is_streams_own(const struct moietyi_held *held,
                           moietyi_extent_id id)
{
    return id && moietyi_holder_of(held, moietyi_where_of(held->hand->space,
                                                          id)) == held->own;
}

struct run {
    uint64_t start;
    uint64_t end; /* as start: there is none */
};

/* The run of extents around one of the stream's own, if this extent is the
 * first of its own in that run. */
static struct run run_around(const struct moietyi_held *held,
                             moietyi_extent_id id)
{
    const struct moietyi_space *space = held->hand->space;
    struct run run = {moietyi_start_of(space, id), moietyi_end_of(space, id)};
    moietyi_extent_id next = extent_before(held, run.start);
    if (next && !is_streams_own(held, next) && !MOIETYI_HEAP_WEAK(RUN)) {
        run.start = moietyi_start_of(space, next);
        next = extent_before(held, run.start);
    }
    if (next)
        return (struct run){0, 0};
    while ((next = extent_behind(held, run.end)))
        run.end = moietyi_end_of(space, next);
    return run;
}

static bool run_has_room(const struct run *run, const struct moietyi_want *want)
{
    uint64_t start = moietyi_align_up(run->start, want->alignment);
    return start < run->end && run->end - start >= want->grains;
}

/* The shortest run with room, of those around the extents of a bin. */
static void look_at_runs(const struct moietyi_held *held, uint32_t age,
                         unsigned bin, const struct moietyi_want *want,
                         unsigned *looks, struct run *best)
{
    const struct moietyi_space *space = held->hand->space;
    for (moietyi_extent_id id = held->own->bins[age].heads[bin];
         id && (*looks || want->is_thorough);
         id = moietyi_extent_of(space, id)->next) {
        struct run run = run_around(held, id);
        *looks -= *looks != 0;
        if (run_has_room(&run, want) &&
            (best->end == best->start ||
             run.end - run.start < best->end - best->start))
            *best = run;
    }
}

/* Takes the interval out of every extent that has a part of it. */
static void take_pieces(const struct moietyi_held *held, uint64_t start,
                        uint64_t end)
{
    const struct moietyi_space *space = held->hand->space;
    while (start < end) {
        moietyi_extent_id id = moietyi_extent_at(held, start);
        uint64_t to = moietyi_end_of(space, id);
        if (to > end)
            to = end;
        moietyi_extent_cut(held, id, start, to - start);
        start = to;
    }
}

/* The longest bin below `end` in which the heap has anything; 0: none. */
static unsigned last_bin_of(const struct moietyi_heap *heap, unsigned end)
{
    unsigned first = moietyi_bins_last(&heap->bins[0], end);
    unsigned second = moietyi_bins_last(&heap->bins[1], end);
    return first > second ? first : second;
}

/* Takes from several extents if they are a shorter run than the best fit. */
static bool take_run(const struct moietyi_held *held,
                     const struct moietyi_want *want,
                     const struct moietyi_fit *fit, uint64_t *start)
{
    struct run best = {0, fit->run};
    unsigned looks = fit->id ? RUNS_BESIDE : RUNS_LAST;
    /* If no extent fits, one that is long enough is not aligned, but a run may
     * be. */
    unsigned end = fit->id ? moietyi_bin_of(want->grains) + 1 : MOIETYI_BINS;
    for (unsigned bin = last_bin_of(held->own, end);
         bin && (looks || want->is_thorough); bin = last_bin_of(held->own, bin))
        for (uint32_t age = 0; age < MOIETYI_AGES; age++)
            look_at_runs(held, age, bin, want, &looks, &best);
    if (best.start == 0 && best.end == fit->run)
        return false;
    *start = moietyi_align_up(best.start, want->alignment);
    take_pieces(held, *start, *start + want->grains);
    return true;
}

/* Whether two extents may touch that are not one: of two ages, or of a stream
 * and of DONE. */
static bool may_be_in_pieces(const struct moietyi_held *held)
{
    return held->done ||
           (moietyi_sum_of(held->own, 0) && moietyi_sum_of(held->own, 1));
}

/* A run of several extents costs more to find. */
static bool is_worth_a_run(const struct moietyi_held *held,
                           const struct moietyi_want *want,
                           const struct moietyi_fit *fit)
{
    return held->own &&
           (!fit->id || (want->grains >= MOIETYI_LONG_GRAINS &&
                         fit->run - want->grains > want->grains / 8 &&
                         may_be_in_pieces(held)));
}

/* --- the interface --- */

/* On one line. */
struct take_call {
    struct moietyi_heap_call call;
    struct moietyi_want want;
    uint64_t start; /* of what was taken */
    bool is_taken;
};

static struct moietyi_heap *asked_heap(const struct moietyi_view *view)
{
    return view->heap ? view->heap : view->space->done;
}

static void do_take(struct moietyi_heap_call *call, struct moietyi_heap *heap)
{
    struct take_call *take = (struct take_call *)call;
    struct moietyi_held held = moietyi_held_of(heap);
    struct moietyi_fit fit;
    MOIETYI_STEP("locked.heap");
    moietyi_view_find(&held, &take->want, &fit);
    take->is_taken = (is_worth_a_run(&held, &take->want, &fit) &&
                      take_run(&held, &take->want, &fit, &take->start)) ||
                     take_extent(&held, &take->want, fit.id, &take->start);
    moietyi_view_end(&held);
}

static bool take_of_view(const struct moietyi_view *view, uint64_t grains,
                         uint32_t alignment, bool is_thorough,
                         moietyi_grain *out)
{
    struct moietyi_heap *heap = asked_heap(view);
    alignas(64) struct take_call take = {.call.run = do_take,
                                         .want = {grains, alignment,
                                                  heap->owner, is_thorough,
                                                  view->is_own_only}};
    moietyi_heap_do(heap, &take.call);
    if (take.is_taken)
        *out = moietyi_grain_at(take.start);
    return take.is_taken;
}

bool moietyi_view_take_best(const struct moietyi_view *view, uint64_t grains,
                            uint32_t alignment, moietyi_grain *out)
{
    return take_of_view(view, grains, alignment, true, out);
}

bool moietyi_view_take(const struct moietyi_view *view, uint64_t grains,
                       uint32_t alignment, moietyi_grain *out)
{
    return take_of_view(view, grains, alignment, false, out);
}

struct some_call {
    struct moietyi_heap_call call;
    struct moietyi_want want;
    uint32_t count; /* wanted, then taken */
    bool is_done;
    moietyi_grain *out;
};

static void do_take_some(struct moietyi_heap_call *call,
                         struct moietyi_heap *heap)
{
    struct some_call *some = (struct some_call *)call;
    struct moietyi_held held = moietyi_held_of(heap);
    struct moietyi_fit fit;
    uint64_t start;
    moietyi_view_find(&held, &some->want, &fit);
    struct moietyi_heap *from =
        moietyi_holder_of(&held, moietyi_where_of(heap->space, fit.id));
    if (from) {
        const struct moietyi_held one = moietyi_held_of(from);
        some->is_done = from->owner == MOIETYI_OWNER_DONE;
        some->count = moietyi_take_intervals(&one, &some->want, fit.id,
                                             some->count, some->out);
    } else if (held.own && take_run(&held, &some->want, &fit, &start)) {
        some->count = 1;
        *some->out = moietyi_grain_at(start);
    } else {
        some->count = 0;
    }
    moietyi_view_end(&held);
}

uint32_t moietyi_view_take_some(const struct moietyi_view *view,
                                const struct moietyi_take *what,
                                bool *out_is_done, moietyi_grain *out)
{
    struct moietyi_heap *heap = asked_heap(view);
    alignas(64) struct some_call some = {.call.run = do_take_some,
                                         .want = {what->grains, what->alignment,
                                                  heap->owner, false,
                                                  view->is_own_only},
                                         .count = what->count,
                                         .out = out};
    moietyi_heap_do(heap, &some.call);
    *out_is_done = some.is_done;
    return some.count;
}

/* How far the extents go from `start` on without a gap, up to `end`. */
static uint64_t held_free_from(const struct moietyi_held *held, uint64_t start,
                               uint64_t end)
{
    const struct moietyi_space *space = held->hand->space;
    uint64_t at = start;
    moietyi_extent_id id = at < end ? moietyi_extent_at(held, at) : 0;
    uint64_t to; /* read once: without the locks it changes */
    while (id && (to = moietyi_end_of(space, id)) > at) {
        at = to;
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

/* Without the locks everything may change meanwhile, so this is a hint. */
static struct moietyi_held look_at_view(const struct moietyi_view *view)
{
    struct moietyi_heap *done = view->space->done;
    return (struct moietyi_held){
        view->heap, view->heap && view->is_own_only ? NULL : done, done};
}

uint64_t moietyi_view_free_from(const struct moietyi_view *view,
                                moietyi_grain start, moietyi_grain end)
{
    const struct moietyi_held held = look_at_view(view);
    return held_free_from(&held, start.index, end.index);
}

uint64_t moietyi_view_free_before(const struct moietyi_view *view,
                                  moietyi_grain start, moietyi_grain end)
{
    const struct moietyi_held held = look_at_view(view);
    uint64_t at = end.index;
    moietyi_extent_id id =
        start.index < at ? moietyi_extent_at(&held, at - 1) : 0;
    uint64_t from; /* read once: it changes */
    while (id && (from = moietyi_start_of(view->space, id)) < at) {
        at = from;
        id = start.index < at ? extent_before(&held, at) : 0;
    }
    return end.index - (at > start.index ? at : start.index);
}

uint64_t moietyi_view_forget_taken(const struct moietyi_view *view)
{
    const struct moietyi_held held = moietyi_view_lock(view);
    uint64_t taken = 0;
    if (held.own) {
        taken = held.own->taken;
        held.own->taken = 0;
    }
    if (held.done) {
        taken += held.done->taken;
        held.done->taken = 0;
    }
    moietyi_view_unlock(&held);
    return taken;
}

uint64_t moietyi_heap_free_from(const struct moietyi_heap *heap,
                                moietyi_grain start, moietyi_grain end)
{
    struct moietyi_heap *own = (struct moietyi_heap *)heap;
    const struct moietyi_view view = {heap->space, own, true};
    return moietyi_view_free_from(&view, start, end);
}

uint64_t moietyi_space_free_from(const struct moietyi_space *space,
                                 moietyi_grain start, moietyi_grain end)
{
    const struct moietyi_view view = {(struct moietyi_space *)space, NULL,
                                      false};
    return moietyi_view_free_from(&view, start, end);
}
