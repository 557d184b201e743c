/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One thread. A byte of each grain says where it is; what a search finds must be
 * the best fit of a search through the bytes, and each word must say the same as
 * its bytes. Only after a claim that failed are the maps asked which of the
 * ageing grains they have made fresh.
 */
#include "tests/buddy/maps/map_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/buddy_probe.h"
#include "tests/support/map_probe.h"
#include "tests/support/tools/random.h"

#define STREAMS 2U
#define HELD_MAX 600U
#define BATCH_MAX 8U
#define NO_START UINT64_MAX
/* Some lives are lived where one group of pages ends and the next begins. */
#define BORDER_PAGES 60U

enum place {
    HELD,
    DONE,
    OWN, /* fresh and ageing of each stream */
    ABSENT = OWN + PROBE_AGES * STREAMS,
    PLACES
};

struct interval {
    uint64_t start;
    uint64_t grains;
};

struct model {
    uint64_t random;
    uint32_t pages;
    uint64_t first; /* the first grain that exists */
    uint64_t grains;
    struct moietyi_buddy *buddy;
    struct moietyi_maps *maps[STREAMS];
    uint8_t *places;
    struct buddy_probe_affinity affinity;
    struct interval held[HELD_MAX];
    uint32_t held_count;
    uint32_t step;
    const char *doing;
    char *message;
};

/* A view, and its stream; STREAMS: none. */
struct seen {
    struct map_probe_view view;
    unsigned stream;
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
    (void)snprintf(model->message, MAP_MODEL_MESSAGE_BYTES, "step %u (%s): %s",
                   model->step, model->doing, what);
}

static uint32_t choose(struct model *model, uint32_t bound)
{
    return random_below(&model->random, bound);
}

static uint64_t choose_grain(struct model *model)
{
    return model->first +
           choose(model, (uint32_t)(model->grains - model->first));
}

static uint8_t place_of(unsigned stream, enum map_probe_age age)
{
    return (uint8_t)(OWN + PROBE_AGES * stream + age);
}

static void move_all(struct model *model, uint8_t from, uint8_t to)
{
    for (uint64_t i = 0; i < model->grains; i++)
        if (model->places[i] == from)
            model->places[i] = to;
}

static uint64_t count(const struct model *model, uint8_t place)
{
    uint64_t grains = 0;
    for (uint64_t i = 0; i < model->grains; i++)
        grains += model->places[i] == place;
    return grains;
}

/* Lengths of every scale: of grains, chunks, pages, and around their borders. */
static uint64_t choose_grains(struct model *model)
{
    switch (choose(model, 5)) {
    case 0:
        return 1 + choose(model, PROBE_CHUNK_GRAINS);
    case 1:
        return 1 + choose(model, 4 * PROBE_CHUNK_GRAINS);
    case 2:
        return PROBE_CHUNK_GRAINS * (uint64_t)(1 + choose(model, 70));
    case 3:
        return 1 + choose(model, 2 * PROBE_PAGE_GRAINS);
    default:
        return 1 + choose(model,
                          PROBE_PAGE_GRAINS *
                              (1 + choose(model, model->pages % BORDER_PAGES)));
    }
}

static struct seen choose_view(struct model *model)
{
    struct seen seen = {.view = {.buddy = model->buddy}};
    seen.stream = choose(model, 2 * STREAMS + 1) / 2;
    if (seen.stream == STREAMS)
        return seen;
    seen.view.maps = model->maps[seen.stream];
    seen.view.is_own_only = choose(model, 3) == 0;
    seen.view.is_good_enough = choose(model, 2);
    return seen;
}

static bool is_seen(const struct seen *seen, uint8_t place)
{
    if (place == DONE)
        return !seen->view.is_own_only;
    return seen->stream < STREAMS &&
           (place == place_of(seen->stream, PROBE_FRESH) ||
            place == place_of(seen->stream, PROBE_AGEING));
}

static bool are_seen(const struct model *model, const struct seen *seen,
                     uint64_t start, uint64_t grains)
{
    for (uint64_t i = start; i < start + grains; i++)
        if (!is_seen(seen, model->places[i]))
            return false;
    return true;
}

/* Whether a run of `length` leaves so little over that none is better. */
static bool is_tight(uint64_t length, uint64_t grains)
{
    bool is_exact = grains > PROBE_PAGE_GRAINS;
    return length && length <= grains + (is_exact ? 0 : grains / 16);
}

/* The start of the lowest tight fit of a view, or of the lowest of the best. */
static uint64_t best_fit(const struct model *model, const struct seen *seen,
                         uint64_t grains, uint64_t alignment)
{
    uint64_t best = NO_START;
    uint64_t best_length = 0;
    bool is_place_seen[PLACES];
    for (uint8_t place = 0; place < PLACES; place++)
        is_place_seen[place] = is_seen(seen, place);
    for (uint64_t at = model->first;
         at < model->grains && !is_tight(best_length, grains); at++) {
        uint64_t length = 0;
        while (at + length < model->grains &&
               is_place_seen[model->places[at + length]])
            length++;
        uint64_t skipped = -at & (alignment - 1);
        if (length >= grains + skipped &&
            (best == NO_START || length < best_length)) {
            best = at + skipped;
            best_length = length;
        }
        at += length;
    }
    return best;
}

/* A whole unit of the ageing map that an interval's grain is in, if the interval
 * leaves a rest of it: a claim makes the rest fresh. */
static struct interval ageing_unit(const struct model *model,
                                   const struct seen *seen, uint64_t grain)
{
    uint64_t unit = 1;
    if (seen->stream < STREAMS) {
        switch (map_probe_level_of(model->maps[seen->stream], PROBE_AGEING,
                                   grain)) {
        case PROBE_CHUNK:
            unit = PROBE_CHUNK_GRAINS;
            break;
        case PROBE_PAGE:
            unit = PROBE_PAGE_GRAINS;
            break;
        default:
            break;
        }
    }
    return (struct interval){grain - grain % unit, unit};
}

static void renew(struct model *model, const struct seen *seen,
                  struct interval unit)
{
    for (uint64_t i = unit.start; i < unit.start + unit.grains; i++)
        if (seen->stream < STREAMS &&
            model->places[i] == place_of(seen->stream, PROBE_AGEING))
            model->places[i] = place_of(seen->stream, PROBE_FRESH);
}

static void hold(struct model *model, uint64_t start, uint64_t grains)
{
    memset(model->places + start, HELD, grains);
    model->held[model->held_count++] = (struct interval){start, grains};
}

/* Which of the ageing grains of a claim's pages are fresh now. */
static void ask_what_is_fresh(struct model *model, const struct seen *seen,
                              uint64_t start, uint64_t end)
{
    start -= start % PROBE_PAGE_GRAINS;
    for (uint64_t i = start; seen->stream < STREAMS && i < model->grains &&
                             (i < end || i % PROBE_PAGE_GRAINS);
         i++)
        if (map_probe_chunk(model->maps[seen->stream], PROBE_FRESH,
                            i / PROBE_CHUNK_GRAINS) >>
                (i % PROBE_CHUNK_GRAINS) &
            1)
            renew(model, seen, (struct interval){i, 1});
}

/* A good fit is any free interval, and there is one if there is a best. */
static void step_take_good(struct model *model, const struct seen *seen,
                           uint64_t grains, uint32_t alignment)
{
    uint64_t best = best_fit(model, seen, grains, alignment);
    uint64_t start = NO_START;
    (void)map_probe_view_take(&seen->view, grains, alignment, false, &start);
    bool is_right = start == NO_START
                        ? best == NO_START
                        : start % alignment == 0 &&
                              start + grains <= model->grains &&
                              are_seen(model, seen, start, grains);
    if (!is_right) {
        fail(model, "%llu grains aligned to %u: at %lld, one is at %lld",
             (unsigned long long)grains, alignment, (long long)start,
             (long long)best);
    } else if (start != NO_START) {
        hold(model, start, grains);
        ask_what_is_fresh(model, seen, start, start + grains);
    }
}

static void step_take(struct model *model)
{
    struct seen seen = choose_view(model);
    uint64_t grains = choose_grains(model);
    uint32_t alignment = UINT32_C(1)
                         << (choose(model, 4) ? 0 : choose(model, 13));
    bool is_thorough = choose(model, 2);
    if (model->held_count == HELD_MAX)
        return;
    if (seen.view.is_good_enough && !is_thorough) {
        step_take_good(model, &seen, grains, alignment);
        return;
    }
    uint64_t best = best_fit(model, &seen, grains, alignment);
    struct interval first = {0, 0};
    struct interval last = {0, 0};
    if (best != NO_START) {
        first = ageing_unit(model, &seen, best);
        last = ageing_unit(model, &seen, best + grains - 1);
    }
    uint64_t start = NO_START;
    (void)map_probe_view_take(&seen.view, grains, alignment, is_thorough,
                              &start);
    if (start != best) {
        fail(model, "%llu grains aligned to %u: at %lld, the best fit is %lld",
             (unsigned long long)grains, alignment, (long long)start,
             (long long)best);
    } else if (best != NO_START) {
        hold(model, start, grains);
        renew(model, &seen, first);
        renew(model, &seen, last);
    }
}

static void step_claim(struct model *model)
{
    struct seen seen = choose_view(model);
    uint64_t start = choose_grain(model);
    uint64_t grains = choose_grains(model);
    if (choose(model, 2)) /* one that is free, perhaps but for its last grain */
        for (grains = 0; start + grains < model->grains &&
                         is_seen(&seen, model->places[start + grains]);)
            grains++;
    grains += choose(model, 2);
    if (!grains || start + grains > model->grains ||
        model->held_count == HELD_MAX)
        return;
    bool is_free = are_seen(model, &seen, start, grains);
    struct interval first = ageing_unit(model, &seen, start);
    struct interval last = ageing_unit(model, &seen, start + grains - 1);
    if (map_probe_view_claim(&seen.view, start, grains) != is_free) {
        fail(model, "grains %llu+%llu: free %d", (unsigned long long)start,
             (unsigned long long)grains, is_free);
    } else if (is_free) {
        hold(model, start, grains);
        renew(model, &seen, first);
        renew(model, &seen, last);
    } else {
        ask_what_is_fresh(model, &seen, start, start + grains);
    }
}

static void hold_all(struct model *model, const struct seen *seen,
                     const uint64_t *starts, uint32_t taken, uint32_t grains)
{
    for (uint32_t i = 0; i < taken; i++) {
        if (are_seen(model, seen, starts[i], grains))
            hold(model, starts[i], grains);
        else
            fail(model, "got grains %llu+%u, which are not free there",
                 (unsigned long long)starts[i], grains);
    }
}

static void step_take_small(struct model *model)
{
    unsigned stream = choose(model, STREAMS);
    struct seen seen = {{model->buddy, model->maps[stream], true, false},
                        stream};
    uint32_t grains = 1 + choose(model, choose(model, 2) ? 8 : 64);
    uint32_t alignment = UINT32_C(1)
                         << (choose(model, 3) ? 0 : choose(model, 9));
    uint64_t starts[BATCH_MAX];
    if (model->held_count + BATCH_MAX > HELD_MAX)
        return;
    uint32_t count = 1 + choose(model, BATCH_MAX);
    uint32_t taken = 0;
    if (alignment == 1 && choose(model, 2))
        taken =
            map_probe_take_gathered(model->maps[stream], grains, count, starts);
    if (!taken)
        taken = map_probe_take(model->maps[stream], grains, count, alignment,
                               starts);
    for (uint32_t i = 0; i < taken; i++)
        if (starts[i] % alignment)
            fail(model, "grain %llu is not aligned to %u",
                 (unsigned long long)starts[i], alignment);
    hold_all(model, &seen, starts, taken, grains);
    /* A unit of the ageing map may have been cut. */
    if (taken)
        ask_what_is_fresh(model, &seen, starts[0], starts[0] + grains);
}

static void step_take_done(struct model *model)
{
    struct seen seen = {{model->buddy, NULL, false, false}, STREAMS};
    uint32_t grains = 1 + choose(model, PROBE_TAKE_GRAINS_MAX);
    uint64_t starts[BATCH_MAX];
    if (model->held_count + BATCH_MAX > HELD_MAX)
        return;
    uint32_t taken = buddy_probe_take(
        model->buddy, choose(model, 2) ? &model->affinity : NULL, grains,
        1 + choose(model, BATCH_MAX), 1, starts);
    hold_all(model, &seen, starts, taken, grains);
}

/* To one of the streams, or to the buddy as done. */
static void give(struct model *model, uint64_t start, uint64_t grains)
{
    unsigned stream = choose(model, 2 * STREAMS + 1) / 2;
    if (stream == STREAMS) {
        memset(model->places + start, DONE, grains);
        if (!buddy_probe_give(model->buddy, &model->affinity, start, grains))
            fail(model, "the buddy refuses what is ours");
        return;
    }
    memset(model->places + start, place_of(stream, PROBE_FRESH), grains);
    if (map_probe_give(model->maps[stream], start, grains) != PROBE_GIVEN)
        fail(model, "grains %llu+%llu are ours and were refused",
             (unsigned long long)start, (unsigned long long)grains);
}

/* A whole interval, or its first part. */
static void step_give(struct model *model)
{
    if (!model->held_count)
        return;
    struct interval *held = &model->held[choose(model, model->held_count)];
    struct interval given = *held;
    if (choose(model, 3) == 0)
        given.grains = 1 + choose(model, (uint32_t)given.grains);
    held->start += given.grains;
    held->grains -= given.grains;
    if (!held->grains)
        *held = model->held[--model->held_count];
    give(model, given.start, given.grains);
}

/* Gives a unit that is free as a whole in the fresh map. */
static void step_give_again(struct model *model)
{
    unsigned stream = choose(model, STREAMS);
    uint64_t grain = choose_grain(model);
    uint64_t unit = 1;
    switch (map_probe_level_of(model->maps[stream], PROBE_FRESH, grain)) {
    case PROBE_NOWHERE:
        return;
    case PROBE_GRAIN:
        break;
    case PROBE_CHUNK:
        unit = PROBE_CHUNK_GRAINS;
        break;
    case PROBE_PAGE:
        unit = PROBE_PAGE_GRAINS;
    }
    if (map_probe_give(model->maps[stream], grain - grain % unit, unit) !=
        PROBE_TWICE)
        fail(model, "grain %llu was given twice", (unsigned long long)grain);
}

static void expect_moved(struct model *model, uint64_t moved, uint8_t from)
{
    if (moved != count(model, from))
        fail(model, "%llu grains were moved", (unsigned long long)moved);
}

static void step_close(struct model *model)
{
    unsigned stream = choose(model, STREAMS);
    uint8_t fresh = place_of(stream, PROBE_FRESH);
    uint8_t ageing = place_of(stream, PROBE_AGEING);
    if (count(model, ageing))
        return;
    expect_moved(model, map_probe_close(model->maps[stream]), fresh);
    move_all(model, fresh, ageing);
}

static void step_drain(struct model *model)
{
    unsigned stream = choose(model, STREAMS);
    enum map_probe_age age = choose(model, 4) ? PROBE_AGEING : PROBE_FRESH;
    uint8_t from = place_of(stream, age);
    expect_moved(model, map_probe_drain(model->maps[stream], age), from);
    move_all(model, from, DONE);
}

static void step_hand(struct model *model)
{
    unsigned stream = choose(model, STREAMS);
    enum map_probe_age age = (enum map_probe_age)choose(model, PROBE_AGES);
    uint8_t from = place_of(stream, age);
    struct moietyi_maps *to = model->maps[!stream];
    expect_moved(model, map_probe_hand(model->maps[stream], age, to), from);
    move_all(model, from, place_of(!stream, PROBE_FRESH));
}

static void step_free_from(struct model *model)
{
    unsigned stream = choose(model, STREAMS);
    struct seen seen = {{model->buddy, model->maps[stream], true, false},
                        stream};
    uint64_t start = choose_grain(model);
    uint64_t end = start + choose(model, (uint32_t)(model->grains - start));
    uint64_t grains = 0;
    while (start + grains < end &&
           is_seen(&seen, model->places[start + grains]))
        grains++;
    if (map_probe_free_from(model->maps[stream], start, end) != grains)
        fail(model, "%llu grains are free from %llu on",
             (unsigned long long)grains, (unsigned long long)start);
}

struct kind {
    const char *name;
    void (*run)(struct model *model);
    uint32_t weight;
};

static const struct kind kinds[] = {
    {"take", step_take, 20},
    {"claim", step_claim, 6},
    {"take small", step_take_small, 6},
    {"take done", step_take_done, 2},
    {"give", step_give, 26},
    {"give again", step_give_again, 2},
    {"close", step_close, 5},
    {"drain", step_drain, 3},
    {"hand", step_hand, 1},
    {"free from", step_free_from, 2},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const struct kind *choose_kind(struct model *model)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < KINDS; i++)
        sum += kinds[i].weight;
    uint32_t left = choose(model, sum);
    const struct kind *kind = kinds;
    for (; left >= kind->weight; kind++)
        left -= kind->weight;
    return kind;
}

/* The grains of a chunk, by the places that their bytes say. */
static void words_of_places(const struct model *model, uint64_t chunk,
                            uint64_t words[PLACES])
{
    const uint8_t *places = model->places + chunk * PROBE_CHUNK_GRAINS;
    for (unsigned i = 0; i < PROBE_CHUNK_GRAINS; i++)
        words[places[i]] |= UINT64_C(1) << i;
}

static void verify_chunk(struct model *model, uint64_t chunk)
{
    uint64_t words[PLACES] = {0};
    words_of_places(model, chunk, words);
    bool is_right = map_probe_done_chunk(model->buddy, chunk) == words[DONE];
    for (unsigned i = 0; is_right && i < STREAMS * PROBE_AGES; i++) {
        enum map_probe_age age = (enum map_probe_age)(i % PROBE_AGES);
        unsigned stream = i / PROBE_AGES;
        is_right = map_probe_chunk(model->maps[stream], age, chunk) ==
                   words[place_of(stream, age)];
    }
    if (!is_right)
        fail(model, "M5: a grain of chunk %llu is not where it should be",
             (unsigned long long)chunk);
}

static void verify(struct model *model)
{
    const struct moietyi_maps *maps[STREAMS] = {model->maps[0], model->maps[1]};
    uint64_t at;
    const char *broken = buddy_probe_check(model->buddy, &at);
    if (!broken)
        broken = map_probe_check(maps, STREAMS, &at);
    if (broken)
        fail(model, "%s, at grain %llu", broken, (unsigned long long)at);
    for (uint64_t i = 0; i < model->grains / PROBE_CHUNK_GRAINS; i++)
        verify_chunk(model, i);
}

/* All of it done is all there was, in whole pages. */
static void finish(struct model *model)
{
    model->doing = "finish";
    while (model->held_count && !model->message[0])
        step_give(model);
    for (unsigned i = 0; i < STREAMS * PROBE_AGES; i++)
        map_probe_drain(model->maps[i / PROBE_AGES],
                        (enum map_probe_age)(i % PROBE_AGES));
    buddy_probe_drop_affinity(model->buddy, &model->affinity);
    for (uint64_t i = 0; i < model->grains; i++)
        if (model->places[i] != ABSENT)
            model->places[i] = DONE;
    verify(model);
    for (uint32_t page = 0; page < model->pages; page++)
        if (buddy_probe_is_page_free(model->buddy, page) !=
            (model->places[(uint64_t)page * PROBE_PAGE_GRAINS] == DONE))
            fail(model, "page %u did not merge", page);
}

static void run_steps(struct model *model, uint32_t steps)
{
    for (; model->step < steps && !model->message[0]; model->step++) {
        const struct kind *kind = choose_kind(model);
        model->doing = kind->name;
        kind->run(model);
        verify(model);
    }
    finish(model);
}

/* All pages but one, perhaps, which is never added. */
static bool create(struct model *model)
{
    model->places = calloc(model->grains, 1);
    if (!model->places || buddy_probe_create(model->pages, &model->buddy) != 0)
        return false;
    for (unsigned i = 0; i < STREAMS; i++)
        model->maps[i] = map_probe_create(model->buddy);
    uint32_t first = (uint32_t)(model->first / PROBE_PAGE_GRAINS);
    uint32_t gap = first + choose(model, 2 * (model->pages - first));
    memset(model->places, ABSENT, model->grains);
    for (uint32_t page = first; page < model->pages; page++) {
        if (page == gap)
            continue;
        memset(model->places + (uint64_t)page * PROBE_PAGE_GRAINS, DONE,
               PROBE_PAGE_GRAINS);
        buddy_probe_add(model->buddy, page, 1);
    }
    return model->maps[0] && model->maps[1];
}

bool map_model_run(uint64_t seed, uint32_t steps,
                   char message[MAP_MODEL_MESSAGE_BYTES])
{
    static struct model model;
    model = (struct model){
        .random = random_start(seed, 0), .doing = "create", .message = message};
    message[0] = '\0';
    uint32_t first = choose(&model, 3) ? 0 : BORDER_PAGES;
    model.pages = first + 1 + choose(&model, 6);
    model.first = (uint64_t)first * PROBE_PAGE_GRAINS;
    model.grains = (uint64_t)model.pages * PROBE_PAGE_GRAINS;
    if (create(&model))
        run_steps(&model, steps);
    else
        fail(&model, "no memory");
    for (unsigned i = 0; i < STREAMS; i++)
        map_probe_destroy(model.maps[i]);
    buddy_probe_destroy(model.buddy);
    free(model.places);
    return !message[0];
}
