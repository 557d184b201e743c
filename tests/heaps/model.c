/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a call takes, it must find where the bytes say, as the best that is there;
 * what it refuses must not be there. Only what a free joins of the closed age and
 * of what is done is read from the heaps, and judged by the rules.
 */
#include "tests/heaps/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/heap/records.h"
#include "tests/heaps/places.h"
#include "tests/support/tools/random.h"

#define HELD_MAX 400U
#define BATCH_MAX 12U
/* Of a bin with more extents a search need not see all. */
#define RIVALS_SEEN 2U
/* A longer interval is taken out of the shortest run of extents. */
#define SHORT_GRAINS 128U

struct held {
    uint64_t start;
    uint64_t grains;
    uint8_t class_byte; /* at `start`; 0 for what is left of a block */
};

struct model {
    struct choices choices;
    uint32_t pages;
    struct moietyi_space *space;
    struct moietyi_heap *heap[STREAMS];
    struct places places;
    uint8_t *classes; /* by grain */
    bool *is_added;   /* by page */
    struct held held[HELD_MAX];
    uint32_t held_count;
    uint32_t step;
    const char *doing;
    char *message;
};

/* An interval that a search is asked for. */
struct wanted {
    uint64_t grains;
    uint32_t alignment;
    bool is_exact; /* the search looks at all that could serve */
};

__attribute__((format(printf, 2, 3))) static void fail(struct model *model,
                                                       const char *format, ...)
{
    if (model->message[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    char what[160];
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    (void)snprintf(model->message, HEAP_MODEL_MESSAGE_BYTES, "step %u (%s): %s",
                   model->step, model->doing, what);
}

static void expect(struct model *model, uint64_t got, uint64_t wanted,
                   const char *what)
{
    if (got != wanted)
        fail(model, "%s: %llu, must be %llu", what, (unsigned long long)got,
             (unsigned long long)wanted);
}

/* --- choices --- */

static uint32_t choose(struct model *model, uint32_t bound)
{
    return choices_below(&model->choices, bound);
}

static uint64_t choose_grain(struct model *model)
{
    /* Both ends of the space, and the borders of pages, are likely. */
    uint64_t page = choose(model, model->pages);
    uint64_t grain = page * MOIETYI_PAGE_GRAINS;
    if (choose(model, 3))
        return grain + choose(model, MOIETYI_PAGE_GRAINS);
    return grain + (choose(model, 2) ? 0 : MOIETYI_PAGE_GRAINS - 1);
}

/* Of every scale: exact bins, chunks, pages, and around their borders. */
static uint64_t choose_grains(struct model *model)
{
    switch (choose(model, 6)) {
    case 0:
        return 1 + choose(model, 3);
    case 1:
        return 1 + choose(model, 20);
    case 2:
        return 1 + choose(model, 4 * MOIETYI_CHUNK_GRAINS);
    case 3:
        return MOIETYI_CHUNK_GRAINS * (uint64_t)(1 + choose(model, 70));
    case 4:
        return 1 + choose(model, 2 * MOIETYI_PAGE_GRAINS);
    default:
        return MOIETYI_PAGE_GRAINS *
               (uint64_t)(1 + choose(model, model->pages));
    }
}

static uint32_t choose_alignment(struct model *model)
{
    return UINT32_C(1) << (choose(model, 2) ? 0 : choose(model, 13));
}

static struct seen choose_view(struct model *model)
{
    struct seen seen = {.view = {.space = model->space}};
    seen.stream = choose(model, 2 * STREAMS + 1) / 2;
    if (seen.stream == STREAMS || !model->heap[seen.stream]) {
        seen.stream = STREAMS;
        return seen;
    }
    seen.view.heap = model->heap[seen.stream];
    seen.view.is_own_only = choose(model, 3) == 0;
    return seen;
}

/* --- what the test holds --- */

/* Memory that a call says is ours from now on. */
static void hold(struct model *model, uint64_t start, uint64_t grains,
                 uint8_t class_byte)
{
    memset(&model->places.now[start], PLACE_NONE, grains);
    expect(model, moietyi_space_class(model->space, moietyi_grain_at(start)), 0,
           "a byte in free memory");
    moietyi_space_set_class(model->space, moietyi_grain_at(start), class_byte);
    model->classes[start] = class_byte;
    model->held[model->held_count++] = (struct held){start, grains, class_byte};
}

static void hold_block(struct model *model, uint64_t start, uint64_t grains)
{
    hold(model, start, grains, (uint8_t)(1 + start % 200));
}

/* An interval, or a part of one, which is ours no more. */
static struct held let_go(struct model *model)
{
    struct held *held = &model->held[choose(model, model->held_count)];
    struct held gone = *held;
    if (gone.grains > 1 && choose(model, 3) == 0)
        gone.grains = 1 + choose(model, (uint32_t)gone.grains - 1);
    uint8_t ended =
        moietyi_space_end_class(model->space, moietyi_grain_at(gone.start));
    expect(model, ended, gone.class_byte, "the byte of a block");
    expect(model,
           moietyi_space_end_class(model->space, moietyi_grain_at(gone.start)),
           0, "the byte of a block that has ended");
    model->classes[gone.start] = 0;
    held->start += gone.grains;
    held->grains -= gone.grains;
    held->class_byte = 0;
    if (!held->grains)
        *held = model->held[--model->held_count];
    return gone;
}

/* --- searches --- */

/* One extent served, so it must be the shortest, or of the same bin where several
 * heaps are asked, and cut at the right end. */
static void judge_single(struct model *model, const struct seen *seen,
                         const struct wanted *wanted, uint64_t start,
                         const struct best *best)
{
    struct run run = places_run(&model->places, model->places.now, start);
    uint64_t grains = run.end - run.start;
    if (wanted->grains >= SHORT_GRAINS)
        return;
    if (seen->stream == STREAMS)
        expect(model, grains, best->grains, "the extent's grains");
    else
        expect(model, moietyi_bin_of(grains), moietyi_bin_of(best->grains),
               "the extent's bin");
    expect(model, start,
           places_cut(&model->places, run, wanted->grains, wanted->alignment),
           "where the extent is cut");
}

static void judge_search(struct model *model, const struct seen *seen,
                         struct wanted wanted, bool is_taken, uint64_t start)
{
    const struct places *places = &model->places;
    struct best best =
        places_best(places, seen, wanted.grains, wanted.alignment);
    bool is_exact = wanted.is_exact || best.rivals <= RIVALS_SEEN;
    if (is_taken &&
        (start % wanted.alignment || start + wanted.grains > places->grains ||
         !places_are_seen(places, seen, start, wanted.grains))) {
        fail(model, "took %llu+%llu, aligned to %u: not free, or not aligned",
             (unsigned long long)start, (unsigned long long)wanted.grains,
             wanted.alignment);
    } else if (best.grains && is_exact) {
        expect(model, is_taken, true, "found what there is");
        if (is_taken)
            judge_single(model, seen, &wanted, start, &best);
    } else if (!best.grains && wanted.is_exact) {
        uint64_t grains =
            places_best_stretch(places, seen, wanted.grains, wanted.alignment);
        expect(model, is_taken, grains != 0, "found what is to be joined");
        struct run run = places_stretch(places, seen, start);
        if (is_taken && wanted.grains < SHORT_GRAINS)
            expect(model, run.end - run.start, grains, "the stretch's grains");
    }
}

static void step_view_take(struct model *model)
{
    struct seen seen = choose_view(model);
    struct wanted wanted = {.grains = choose_grains(model),
                            .alignment = choose_alignment(model)};
    moietyi_grain start = {0};
    bool is_taken;
    wanted.is_exact = choose(model, 2);
    is_taken = wanted.is_exact
                   ? moietyi_view_take_best(&seen.view, wanted.grains,
                                            wanted.alignment, &start)
                   : moietyi_view_take(&seen.view, wanted.grains,
                                       wanted.alignment, &start);
    judge_search(model, &seen, wanted, is_taken, start.index);
    if (is_taken && !model->message[0])
        hold_block(model, start.index, wanted.grains);
}

/* Several intervals out of one heap. */
static void judge_batch(struct model *model, const struct seen *seen,
                        const struct moietyi_take *what, uint32_t taken,
                        const moietyi_grain *out)
{
    struct best best = {0, 0};
    for (uint32_t i = 0; i < taken && !model->message[0]; i++) {
        if (out[i].index % what->alignment ||
            !places_are_seen(&model->places, seen, out[i].index, what->grains))
            fail(model, "interval %u of %u at %llu: not free, or not aligned",
                 i, taken, (unsigned long long)out[i].index);
        else
            hold_block(model, out[i].index, what->grains);
    }
    if (what->alignment == 1 && taken < what->count && taken < 8) {
        best = places_best(&model->places, seen, what->grains, what->alignment);
        if (best.rivals <= RIVALS_SEEN)
            expect(model, best.grains, 0, "an extent that was left out");
    }
}

/* Records go from hand to hand until a heap has few. */
static void step_records(struct model *model)
{
    uint32_t count = choose(model, 12);
    struct moietyi_heap *to = model->heap[choose(model, STREAMS)];
    struct moietyi_heap *from = model->heap[choose(model, STREAMS)];
    if (choose(model, 2))
        from = model->space->done;
    while (from && to && from != to && from->spare_count > count)
        moietyi_spare_put(to, moietyi_spare_take(from));
}

static void step_drain(struct model *model)
{
    unsigned stream = choose(model, STREAMS);
    enum moietyi_age age = choose(model, 3) ? MOIETYI_AGEING : MOIETYI_FRESH;
    struct places *places = &model->places;
    if (!model->heap[stream])
        return;
    uint64_t grains = places_count(places, place_of(stream, age));
    expect(model, moietyi_heap_drain(model->heap[stream], age), grains,
           "grains that were drained");
    places_move(places, place_of(stream, age), PLACE_DONE);
}

static void step_take(struct model *model)
{
    const struct seen seen = {{model->space, NULL, false}, STREAMS};
    const struct moietyi_take what = {
        1 + choose(model, UINT32_C(1) << choose(model, 12)),
        choose(model, 3) ? 1 : 1 + choose(model, BATCH_MAX),
        choose_alignment(model)};
    moietyi_grain out[BATCH_MAX] = {{0}};
    if (what.alignment > 1 && what.count > 1)
        step_records(model);
    bool is_done;
    uint32_t taken = moietyi_view_take_some(&seen.view, &what, &is_done, out);
    const struct wanted wanted = {what.grains, what.alignment, false};
    if (what.count == 1)
        judge_search(model, &seen, wanted, taken != 0, out[0].index);
    judge_batch(model, &seen, &what, taken, out);
}

/* Several of one heap, or one that is put together. */
static void step_take_some(struct model *model)
{
    struct seen seen = choose_view(model);
    struct seen from = seen;
    const struct moietyi_take what = {
        1 + choose(model, UINT32_C(1) << choose(model, 12)),
        choose(model, 3) ? 1 : 1 + choose(model, BATCH_MAX),
        choose_alignment(model)};
    const struct best best =
        places_best(&model->places, &seen, what.grains, what.alignment);
    moietyi_grain out[BATCH_MAX] = {{0}};
    bool is_done = false;
    uint32_t taken = moietyi_view_take_some(&seen.view, &what, &is_done, out);
    if (best.grains && best.rivals <= RIVALS_SEEN)
        expect(model, taken != 0, true, "found what there is");
    expect(model, taken <= what.count, true, "as many as were asked for");
    if (is_done)
        from = (struct seen){{model->space, NULL, false}, STREAMS};
    else if (taken > 1)
        from.view.is_own_only = true;
    for (uint32_t i = 0; i < taken && !model->message[0]; i++) {
        if (out[i].index % what.alignment ||
            !places_are_seen(&model->places, &from, out[i].index, what.grains))
            fail(model, "interval %u of %u at %llu: not free there", i, taken,
                 (unsigned long long)out[i].index);
        else
            hold_block(model, out[i].index, what.grains);
    }
}

static void step_claim(struct model *model)
{
    struct seen seen = choose_view(model);
    uint64_t at = choose_grain(model);
    struct run run = places_stretch(&model->places, &seen, at);
    uint64_t start = at;
    uint64_t grains = choose_grains(model);
    if (run.end > run.start && choose(model, 4)) { /* within what is free */
        start = run.start + choose(model, (uint32_t)(at - run.start) + 1);
        grains = 1 + choose(model, (uint32_t)(run.end - start));
        if (grains > 3 && choose(model, 2))
            grains = 1 + choose(model, 3);
        grains += choose(model, 8) == 0;
    }
    if (start + grains > model->places.grains)
        grains = model->places.grains - start;
    bool is_claimed =
        moietyi_view_claim(&seen.view, moietyi_grain_at(start), grains);
    expect(model, is_claimed,
           places_are_seen(&model->places, &seen, start, grains), "claimed");
    if (is_claimed && !model->message[0])
        hold_block(model, start, grains);
}

/* --- frees --- */

static void read_heaps(struct model *model)
{
    if (!places_read(&model->places, model->space, model->heap))
        fail(model, "two extents have the same grain");
}

static void give_to_done(struct model *model, const struct held *freed)
{
    expect(model,
           moietyi_space_give(model->space, moietyi_grain_at(freed->start),
                              freed->grains),
           true, "given");
    memset(&model->places.now[freed->start], PLACE_DONE, freed->grains);
}

/* What was freed is fresh, and nothing else has changed. */
static void give_to_stream(struct model *model, unsigned stream,
                           const struct held *freed)
{
    struct places *places = &model->places;
    expect(model,
           moietyi_heap_give(model->heap[stream],
                             moietyi_grain_at(freed->start), freed->grains),
           true, "given");
    memset(&places->now[freed->start], place_of(stream, MOIETYI_FRESH),
           freed->grains);
}

static void step_give(struct model *model)
{
    unsigned stream = choose(model, STREAMS + 1);
    if (!model->held_count)
        return;
    struct held freed = let_go(model);
    if (stream < STREAMS && model->heap[stream]) {
        give_to_stream(model, stream, &freed);
        return;
    }
    give_to_done(model, &freed);
}

static void step_give_some(struct model *model)
{
    unsigned stream = choose(model, STREAMS + 1);
    struct moietyi_heap *heap = stream < STREAMS ? model->heap[stream] : NULL;
    uint8_t place =
        heap ? place_of(stream, MOIETYI_FRESH) : (uint8_t)PLACE_DONE;
    struct moietyi_interval intervals[BATCH_MAX];
    uint32_t count = 1 + choose(model, BATCH_MAX);
    struct moietyi_records records = {0};
    if (count > model->held_count)
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct held freed = let_go(model);
        intervals[i] = (struct moietyi_interval){freed.start, freed.grains};
        memset(&model->places.now[freed.start], place, freed.grains);
    }
    expect(model,
           moietyi_give_some(model->space, heap, intervals, count, &records), 0,
           "given twice");
}

/* A block that is free already is refused where it begins or ends an extent. */
static void step_give_twice(struct model *model)
{
    const struct places *places = &model->places;
    uint64_t at = choose_grain(model);
    uint8_t place = places->now[at];
    if (place == PLACE_NONE)
        return;
    struct run run = places_run(places, places->now, at);
    uint64_t grains = 1 + choose(model, (uint32_t)(run.end - run.start));
    unsigned stream = STREAMS;
    if (place != PLACE_DONE)
        stream = (unsigned)(place - PLACE_OWN) / MOIETYI_AGES;
    /* Where it ends alone tells, its own heap alone can. */
    uint64_t start = choose(model, 2) ? run.start : run.end - grains;
    if (start == run.start)
        stream = choose(model, STREAMS + 1);
    moietyi_grain given = moietyi_grain_at(start);
    if (stream < STREAMS && model->heap[stream])
        expect(model, moietyi_heap_give(model->heap[stream], given, grains),
               false, "given twice");
    else if (start == run.start || place == PLACE_DONE)
        expect(model, moietyi_space_give(model->space, given, grains), false,
               "given twice");
}

/* --- ages and heaps --- */

static void close_stream(struct model *model, unsigned stream)
{
    struct places *places = &model->places;
    const uint8_t fresh = place_of(stream, MOIETYI_FRESH);
    uint64_t grains = places_count(places, fresh);
    expect(model, moietyi_heap_close(model->heap[stream]), grains,
           "grains that were closed");
    places_move(places, fresh, place_of(stream, MOIETYI_AGEING));
}

static void step_close(struct model *model)
{
    unsigned stream = choose(model, STREAMS);
    if (model->heap[stream])
        close_stream(model, stream);
}

/* A block, then grains of the closed age and of what is done by turns; the block
 * is freed, and joins as many of them as it may. */
static void step_comb(struct model *model)
{
    unsigned stream = choose(model, STREAMS);
    if (!model->heap[stream] || !model->held_count)
        return;
    struct held block = let_go(model);
    struct held tooth = {.grains = 1};
    uint64_t teeth = block.grains / 2;
    if (teeth > 30)
        teeth = 30;
    block.grains -= teeth;
    for (uint64_t i = 0; i < teeth; i += 2) {
        tooth.start = block.start + block.grains + i;
        give_to_stream(model, stream, &tooth);
    }
    close_stream(model, stream);
    for (uint64_t i = 1; i < teeth; i += 2) {
        tooth.start = block.start + block.grains + i;
        give_to_done(model, &tooth);
    }
    give_to_stream(model, stream, &block);
}

/* What is handed joins what its new stream has, the closed age too. */
static void judge_hand(struct model *model, uint8_t from, unsigned stream)
{
    struct places *places = &model->places;
    const uint8_t fresh = place_of(stream, MOIETYI_FRESH);
    read_heaps(model);
    for (uint64_t at = 0; at < places->grains; at++) {
        if (places->now[at] != place_of(stream, MOIETYI_AGEING) ||
            places->read[at] != fresh)
            continue;
        struct run run = places_run(places, places->now, at);
        struct run grown = places_run(places, places->read, at);
        bool is_joined = false;
        for (uint64_t i = grown.start; i < grown.end; i++)
            is_joined = is_joined || places->now[i] == from;
        if (!is_joined || grown.start > run.start || grown.end < run.end)
            fail(model, "at %llu what was closed is fresh",
                 (unsigned long long)at);
    }
    for (uint64_t at = 0; at < places->grains; at++)
        if (places->now[at] == from ||
            (places->now[at] == place_of(stream, MOIETYI_AGEING) &&
             places->read[at] == fresh))
            places->now[at] = fresh;
}

static void step_hand(struct model *model)
{
    unsigned stream = choose(model, STREAMS);
    unsigned to = (stream + 1 + choose(model, STREAMS - 1)) % STREAMS;
    enum moietyi_age age = choose(model, MOIETYI_AGES);
    if (!model->heap[stream] || !model->heap[to])
        return;
    const uint8_t from = place_of(stream, age);
    uint64_t grains = places_count(&model->places, from);
    expect(model, moietyi_heap_hand(model->heap[stream], age, model->heap[to]),
           grains, "grains that were handed");
    judge_hand(model, from, to);
}

/* What is still in the heap is ours then. The next one has its number. */
static void step_create_or_destroy(struct model *model)
{
    unsigned stream = choose(model, STREAMS);
    struct places *places = &model->places;
    if (!model->heap[stream]) {
        model->heap[stream] = moietyi_heap_create(model->space);
        if (!model->heap[stream])
            fail(model, "no memory");
        return;
    }
    if (choose(model, 3))
        return;
    moietyi_heap_destroy(model->heap[stream]);
    model->heap[stream] = NULL;
    const struct seen own = {{model->space, NULL, true}, stream};
    struct run run = {0, 0};
    for (; run.start < places->grains; run.start = run.end) {
        run = places_run(places, places->now, run.start);
        if (!place_is_seen(&own, places->now[run.start]))
            continue;
        if (model->held_count < HELD_MAX)
            hold(model, run.start, run.end - run.start, 0);
        else /* it is nobody's for good */
            memset(&places->now[run.start], PLACE_NONE, run.end - run.start);
    }
}

static void step_pages(struct model *model)
{
    uint32_t first = choose(model, model->pages);
    uint32_t count = 1 + choose(model, model->pages - first);
    uint64_t start = (uint64_t)first * MOIETYI_PAGE_GRAINS;
    uint64_t grains = (uint64_t)count * MOIETYI_PAGE_GRAINS;
    bool is_absent = true;
    for (uint32_t i = first; i < first + count; i++)
        is_absent = is_absent && !model->is_added[i];
    if (is_absent) {
        expect(model,
               moietyi_space_add(model->space, (moietyi_page){first}, count), 1,
               "pages that are added");
        memset(&model->places.now[start], PLACE_DONE, grains);
        memset(&model->is_added[first], true, count);
        return;
    }
    bool is_free = places_are(model->places.now, start, grains, PLACE_DONE);
    expect(model,
           moietyi_space_remove(model->space, (moietyi_page){first}, count),
           is_free, "removed");
    if (is_free) {
        memset(&model->places.now[start], PLACE_NONE, grains);
        memset(&model->is_added[first], false, count);
    }
}

/* --- queries --- */

static void step_ask(struct model *model)
{
    const struct places *places = &model->places;
    struct seen seen = choose_view(model);
    uint64_t start = choose_grain(model);
    uint64_t end = start + choose_grains(model);
    if (end > places->grains)
        end = places->grains;
    const moietyi_grain first = moietyi_grain_at(start);
    const moietyi_grain last = moietyi_grain_at(end);
    struct run run = places_stretch(places, &seen, start);
    uint64_t from = (run.end < end ? run.end : end) - start;
    expect(model, moietyi_view_free_from(&seen.view, first, last), from,
           "free from");
    if (seen.stream < STREAMS && seen.view.is_own_only)
        expect(model, moietyi_heap_free_from(seen.view.heap, first, last), from,
               "free from, of a heap");
    if (seen.stream == STREAMS)
        expect(model, moietyi_space_free_from(model->space, first, last), from,
               "free from, of what is done");
    run = places_stretch(places, &seen, end - 1);
    if (run.start == run.end)
        run.start = end;
    expect(model, moietyi_view_free_before(&seen.view, first, last),
           end - (run.start > start ? run.start : start), "free before");
    uint64_t next = start;
    while (next < end && !model->classes[next])
        next++;
    expect(model, moietyi_space_next_class(model->space, first, last).index,
           next, "next class");
}

static void ask_sums(struct model *model)
{
    const struct places *places = &model->places;
    for (unsigned i = 0; i < STREAMS; i++)
        for (unsigned age = 0; age < MOIETYI_AGES; age++)
            expect(model, moietyi_heap_grains(model->heap[i], age),
                   places_count(places, place_of(i, age)), "a heap's grains");
    expect(model, moietyi_space_free_grains(model->space),
           places_count(places, PLACE_DONE), "grains that are done");
    expect(model, moietyi_space_longest_page_run(model->space),
           places_longest(places, true), "the longest run of pages");
    expect(model, moietyi_space_largest_bytes(model->space),
           places_longest(places, false) * MOIETYI_GRAIN_BYTES,
           "the largest extent");
}

/* --- steps --- */

static const struct {
    const char *name;
    void (*run)(struct model *model);
    uint8_t chance; /* of 64 */
    uint8_t blocks; /* that it takes at most */
} steps[] = {
    {"give", step_give, 11, 0},
    {"give some", step_give_some, 2, 0},
    {"comb", step_comb, 1, 0},
    {"records", step_records, 2, 0},
    {"view take", step_view_take, 7, 1},
    {"take some", step_take_some, 6, BATCH_MAX},
    {"done take", step_take, 8, BATCH_MAX},
    {"claim", step_claim, 6, 1},
    {"give twice", step_give_twice, 3, 0},
    {"close", step_close, 3, 0},
    {"drain", step_drain, 3, 0},
    {"hand", step_hand, 2, 0},
    {"create or destroy", step_create_or_destroy, 2, 0},
    {"pages", step_pages, 3, 0},
    {"ask", step_ask, 5, 0},
};

static void check_all(struct model *model)
{
    moietyi_grain at = {0};
    const char *broken = moietyi_heap_check(
        (const struct moietyi_heap *const *)model->heap, STREAMS, &at);
    if (!broken)
        broken = moietyi_space_check(model->space, &at);
    if (broken)
        fail(model, "at %llu: %s", (unsigned long long)at.index, broken);
    read_heaps(model);
    uint64_t where = places_difference(&model->places);
    if (where < model->places.grains)
        fail(model, "grain %llu is in place %u, must be in %u",
             (unsigned long long)where, model->places.read[where],
             model->places.now[where]);
    if (!model->message[0])
        ask_sums(model);
}

static void play_step(struct model *model)
{
    uint32_t chance = choose(model, 64);
    size_t i = 0;
    while (chance >= steps[i].chance)
        chance -= steps[i++].chance;
    if (model->held_count + steps[i].blocks > HELD_MAX)
        i = 0;
    model->doing = steps[i].name;
    steps[i].run(model);
    if (!model->message[0])
        check_all(model);
}

static bool set_up(struct model *model)
{
    model->pages = choose(model, 8) ? 1 + choose(model, 5) : 12;
    uint64_t grains = (uint64_t)model->pages * MOIETYI_PAGE_GRAINS;
    model->classes = calloc(grains, 1);
    model->is_added = calloc(model->pages, sizeof(bool));
    if (!places_init(&model->places, grains) || !model->classes ||
        !model->is_added ||
        !(model->space = moietyi_space_create(model->pages)))
        return false;
    for (unsigned i = 0; i < STREAMS; i++)
        model->heap[i] = moietyi_heap_create(model->space);
    return true;
}

static void tear_down(struct model *model)
{
    for (unsigned i = 0; i < STREAMS; i++)
        moietyi_heap_destroy(model->heap[i]);
    moietyi_space_destroy(model->space);
    places_fini(&model->places);
    free(model->classes);
    free(model->is_added);
}

bool heap_model_run(const struct heap_model_input *input,
                    char message[HEAP_MODEL_MESSAGE_BYTES])
{
    struct model model = {.choices = {.random = random_start(input->seed, 0),
                                      .bytes = input->ops,
                                      .byte_count = input->op_bytes},
                          .message = message};
    message[0] = 0;
    model.doing = "create";
    if (!set_up(&model))
        fail(&model, "no memory");
    for (model.step = 1; model.step <= input->steps && !message[0] &&
                         !choices_are_over(&model.choices);
         model.step++)
        play_step(&model);
    tear_down(&model);
    return !message[0];
}
