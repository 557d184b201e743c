/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One thread. Every take and give is checked against the byte map before it is
 * repeated there; every refusal is checked to be a necessary one.
 */
#include "tests/buddy/model.h"

#include <stdarg.h>
#include <stdio.h>

#include "tests/buddy/byte_map.h"
#include "tests/oracle/mutex_buddy.h"
#include "tests/support/buddy_probe.h"
#include "tests/support/tools/random.h"

#define AFFINITY_COUNT 3U
#define HELD_MAX 1024U
#define BATCH_MAX 20U

struct held {
    uint64_t start;
    uint64_t grains;
    uint8_t class_byte; /* at `start`; 0 for what is left of an interval */
};

struct model {
    struct choices choices;
    uint32_t steps; /* at the most */
    uint32_t pages;
    bool has_runs;
    struct moietyi_buddy *buddy;
    struct mutex_buddy *oracle;
    struct byte_map map;
    struct buddy_probe_affinity affinities[AFFINITY_COUNT];
    struct held held[HELD_MAX];
    uint32_t held_count;
    uint32_t step;
    const char *doing;
    char *message;
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
    (void)snprintf(model->message, BUDDY_MODEL_MESSAGE_BYTES,
                   "step %u (%s): %s", model->step, model->doing, what);
}

static uint32_t choose(struct model *model, uint32_t bound)
{
    return choices_below(&model->choices, bound);
}

static struct buddy_probe_affinity *choose_affinity(struct model *model)
{
    uint32_t index = choose(model, AFFINITY_COUNT + 1);
    return index < AFFINITY_COUNT ? &model->affinities[index] : NULL;
}

/* Memory that the buddy says is ours from now on. */
static void hold(struct model *model, uint64_t start, uint64_t grains)
{
    if (!byte_map_is(&model->map, start, grains, BYTE_MAP_FREE)) {
        fail(model, "got grains %llu+%llu, which are not free",
             (unsigned long long)start, (unsigned long long)grains);
        return;
    }
    byte_map_set(&model->map, start, grains, BYTE_MAP_HELD);
    if (!mutex_buddy_claim(model->oracle, start, grains))
        fail(model, "the oracle cannot claim what is free");
    if (buddy_probe_class(model->buddy, start))
        fail(model, "got an interval that starts already");
    uint8_t class_byte = (uint8_t)(1 + start % 200);
    buddy_probe_set_class(model->buddy, start, class_byte);
    model->held[model->held_count++] = (struct held){start, grains, class_byte};
}

static void hold_all(struct model *model, const uint64_t *starts,
                     uint32_t count, uint32_t grains, uint32_t alignment)
{
    for (uint32_t i = 0; i < count; i++) {
        if (starts[i] % alignment)
            fail(model, "grain %llu is not aligned to %u",
                 (unsigned long long)starts[i], alignment);
        hold(model, starts[i], grains);
    }
}

static void expect_taken(struct model *model, uint32_t grains,
                         uint32_t alignment, bool has_place, bool is_taken)
{
    if (is_taken != has_place)
        fail(model, "%u grains aligned to %u: place %d, taken %d", grains,
             alignment, has_place, is_taken);
}

/* After a search in vain: the thorough ones must find what is there. */
static void take_or_prove(struct model *model,
                          struct buddy_probe_affinity *affinity,
                          uint32_t grains, uint32_t alignment)
{
    uint64_t start;
    bool has_place;
    bool is_taken;
    if (choose(model, 2)) {
        has_place = byte_map_has_room(&model->map, grains, alignment);
        is_taken =
            buddy_probe_take_last(model->buddy, grains, alignment, &start);
    } else {
        has_place = byte_map_has_place(&model->map, grains, alignment);
        buddy_probe_trim(model->buddy);
        is_taken = buddy_probe_take(model->buddy, affinity, grains, 1,
                                    alignment, &start) == 1;
    }
    expect_taken(model, grains, alignment, has_place, is_taken);
    if (is_taken)
        hold_all(model, &start, 1, grains, alignment);
}

static void step_take(struct model *model)
{
    if (model->held_count + BATCH_MAX > HELD_MAX)
        return;
    struct buddy_probe_affinity *affinity = choose_affinity(model);
    uint32_t grains = 1 + choose(model, UINT32_C(1) << choose(model, 12));
    uint32_t alignment = UINT32_C(1)
                         << (choose(model, 4) ? 0 : choose(model, 13));
    uint32_t count = choose(model, 3) ? 1 : 1 + choose(model, BATCH_MAX);
    uint64_t starts[BATCH_MAX];
    uint32_t taken = buddy_probe_take(model->buddy, affinity, grains, count,
                                      alignment, starts);
    if (taken > count)
        fail(model, "got %u blocks of %u", taken, count);
    else if (taken)
        hold_all(model, starts, taken, grains, alignment);
    else
        take_or_prove(model, affinity, grains, alignment);
}

/* Which one is the best, map_model.c checks. */
static void step_take_run(struct model *model)
{
    if (model->held_count == HELD_MAX)
        return;
    uint32_t chunks =
        33 + choose(model, PROBE_PAGE_CHUNKS * (1 + choose(model, 4)));
    uint32_t grains = chunks * PROBE_CHUNK_GRAINS;
    bool has_room = byte_map_has_room(&model->map, grains, PROBE_PAGE_GRAINS);
    uint64_t start;
    buddy_probe_trim(model->buddy);
    bool is_taken = buddy_probe_take_run(model->buddy, chunks, &start);
    expect_taken(model, grains, PROBE_PAGE_GRAINS, has_room, is_taken);
    if (is_taken)
        hold_all(model, &start, 1, grains, PROBE_PAGE_GRAINS);
}

static void give(struct model *model,
                 const struct buddy_probe_affinity *affinity, uint64_t start,
                 uint64_t grains)
{
    byte_map_set(&model->map, start, grains, BYTE_MAP_FREE);
    if (!buddy_probe_give(model->buddy, affinity, start, grains))
        fail(model, "grains %llu+%llu are ours and were refused",
             (unsigned long long)start, (unsigned long long)grains);
    if (!mutex_buddy_give(model->oracle, start, grains))
        fail(model, "the oracle refuses what was taken");
}

/* The class byte must have survived; it goes with the interval's start. */
static void forget_class(struct model *model, struct held *held)
{
    if (held->class_byte &&
        buddy_probe_class(model->buddy, held->start) != held->class_byte)
        fail(model, "the class at grain %llu has changed",
             (unsigned long long)held->start);
    buddy_probe_set_class(model->buddy, held->start, 0);
    held->class_byte = 0;
}

static struct held drop(struct model *model, uint32_t index)
{
    struct held held = model->held[index];
    forget_class(model, &held);
    model->held[index] = model->held[--model->held_count];
    return held;
}

static void give_piece(struct model *model, uint32_t index)
{
    struct held *held = &model->held[index];
    uint32_t from = choose(model, (uint32_t)held->grains);
    uint32_t room = (uint32_t)held->grains - from;
    uint32_t grains = 1 + choose(model, room);
    uint64_t start = held->start + from;
    if (grains < room) {
        if (model->held_count == HELD_MAX)
            return;
        model->held[model->held_count++] =
            (struct held){start + grains, room - grains, 0};
    }
    if (from)
        held->grains = from;
    else
        (void)drop(model, index);
    give(model, choose_affinity(model), start, grains);
}

/* Intervals that follow one another go back as one. */
static void give_neighbours(struct model *model, uint32_t index)
{
    struct held held = drop(model, index);
    uint64_t end = held.start + held.grains;
    for (uint32_t i = 0; i < model->held_count; i++) {
        if (model->held[i].start != end)
            continue;
        end += drop(model, i).grains;
        i = UINT32_MAX; /* from the start again */
    }
    give(model, choose_affinity(model), held.start, end - held.start);
}

static void step_give(struct model *model)
{
    if (!model->held_count)
        return;
    uint32_t index = choose(model, model->held_count);
    switch (choose(model, 4)) {
    case 0:
        give_piece(model, index);
        break;
    case 1:
        give_neighbours(model, index);
        break;
    default: {
        struct held held = drop(model, index);
        give(model, choose_affinity(model), held.start, held.grains);
    }
    }
}

/* Gives what is free already, as large as its words can know it. */
static void step_give_again(struct model *model)
{
    uint32_t grain = choose(model, model->pages * PROBE_PAGE_GRAINS);
    if (!byte_map_is(&model->map, grain, 1, BYTE_MAP_FREE))
        return;
    uint64_t start = grain;
    uint64_t grains = 1;
    for (uint32_t unit = PROBE_CHUNK_GRAINS; unit <= PROBE_PAGE_GRAINS;
         unit *= PROBE_PAGE_CHUNKS) {
        if (!byte_map_is(&model->map, grain / unit * unit, unit, BYTE_MAP_FREE))
            break;
        start = grain / unit * unit;
        grains = unit;
    }
    buddy_probe_trim(model->buddy);
    if (buddy_probe_give(model->buddy, choose_affinity(model), start, grains))
        fail(model, "grains %llu+%llu were given twice",
             (unsigned long long)start, (unsigned long long)grains);
}

static void step_withdraw(struct model *model)
{
    uint32_t first = choose(model, model->pages);
    uint32_t count = 1 + choose(model, 4);
    uint64_t start = (uint64_t)first * PROBE_PAGE_GRAINS;
    uint64_t grains = (uint64_t)count * PROBE_PAGE_GRAINS;
    bool is_free = byte_map_is(&model->map, start, grains, BYTE_MAP_FREE);
    buddy_probe_trim(model->buddy);
    if (buddy_probe_remove(model->buddy, first, count) != is_free) {
        fail(model, "pages %u+%u: free %d", first, count, is_free);
        return;
    }
    if (!is_free)
        return;
    byte_map_set(&model->map, start, grains, BYTE_MAP_ABSENT);
    if (!mutex_buddy_withdraw(model->oracle, first, count))
        fail(model, "the oracle keeps pages that are free");
}

static void step_add(struct model *model)
{
    uint32_t first = choose(model, model->pages);
    uint32_t wanted = 1 + choose(model, 3);
    uint32_t count = 0;
    while (count < wanted &&
           byte_map_is(&model->map,
                       (uint64_t)(first + count) * PROBE_PAGE_GRAINS,
                       PROBE_PAGE_GRAINS, BYTE_MAP_ABSENT))
        count++;
    if (!count)
        return;
    buddy_probe_add(model->buddy, first, count);
    byte_map_set(&model->map, (uint64_t)first * PROBE_PAGE_GRAINS,
                 (uint64_t)count * PROBE_PAGE_GRAINS, BYTE_MAP_FREE);
    if (!mutex_buddy_add(model->oracle, first, count))
        fail(model, "the oracle has pages that are absent");
}

/* After a trim everything has merged, so that long runs are known. */
static void step_trim(struct model *model)
{
    buddy_probe_trim(model->buddy);
    uint64_t at;
    const char *broken = buddy_probe_check_merged(model->buddy, &at);
    if (broken)
        fail(model, "%s, at grain %llu", broken, (unsigned long long)at);
    uint32_t longest = buddy_probe_longest_page_run(model->buddy);
    if (longest != mutex_buddy_longest_page_run(model->oracle))
        fail(model, "the longest run is %u pages", longest);
}

static void step_drop_affinity(struct model *model)
{
    buddy_probe_drop_affinity(
        model->buddy, &model->affinities[choose(model, AFFINITY_COUNT)]);
}

struct kind {
    const char *name;
    void (*run)(struct model *model);
    /* In a life of small blocks, and in one of runs. */
    uint32_t weights[2];
};

static const struct kind kinds[] = {
    {"take", step_take, {24, 2}},
    {"give", step_give, {22, 12}},
    {"take run", step_take_run, {2, 12}},
    {"give again", step_give_again, {2, 1}},
    {"withdraw", step_withdraw, {1, 1}},
    {"add", step_add, {2, 3}},
    {"trim", step_trim, {1, 1}},
    {"drop affinity", step_drop_affinity, {2, 1}},
};

static const struct kind *choose_kind(struct model *model)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        sum += kinds[i].weights[model->has_runs];
    uint32_t left = choose(model, sum);
    const struct kind *kind = kinds;
    for (; left >= kind->weights[model->has_runs]; kind++)
        left -= kind->weights[model->has_runs];
    return kind;
}

/* An affinity keeps one word of grains open, and its page, not more. */
static void verify_open_words(struct model *model)
{
    uint32_t open_chunks = 0;
    uint32_t open_pages = 0;
    for (uint32_t page = 0; page < model->pages; page++) {
        open_pages += buddy_probe_page_word(model->buddy, page) == UINT64_MAX;
        for (uint64_t i = 0; i < PROBE_PAGE_CHUNKS; i++)
            open_chunks +=
                buddy_probe_chunk_word(model->buddy, page * PROBE_PAGE_CHUNKS +
                                                         i) == UINT64_MAX;
    }
    if (open_chunks > AFFINITY_COUNT || open_pages > AFFINITY_COUNT)
        fail(model, "%u full words of grains and %u of chunks are open",
             open_chunks, open_pages);
}

static void verify(struct model *model)
{
    uint64_t at;
    const char *broken = buddy_probe_check(model->buddy, &at);
    if (broken)
        fail(model, "%s, at grain %llu", broken, (unsigned long long)at);
    uint64_t grains = buddy_probe_free_grains(model->buddy);
    if (grains != model->map.free_grains)
        fail(model, "B6: %llu grains are free, not %llu",
             (unsigned long long)grains,
             (unsigned long long)model->map.free_grains);
    if (grains != mutex_buddy_free_grains(model->oracle))
        fail(model, "the oracle has another number of free grains");
    verify_open_words(model);
}

/* Everything given back is everything there was, in one piece. */
static void finish(struct model *model)
{
    model->doing = "finish";
    while (model->held_count && !model->message[0]) {
        struct held held = drop(model, choose(model, model->held_count));
        give(model, choose_affinity(model), held.start, held.grains);
    }
    for (uint32_t i = 0; i < AFFINITY_COUNT; i++)
        buddy_probe_drop_affinity(model->buddy, &model->affinities[i]);
    uint64_t at;
    const char *broken = buddy_probe_check_merged(model->buddy, &at);
    if (broken)
        fail(model, "%s, at grain %llu", broken, (unsigned long long)at);
    verify(model);
    for (uint32_t page = 0; page < model->pages; page++) {
        bool is_free =
            byte_map_is(&model->map, (uint64_t)page * PROBE_PAGE_GRAINS,
                        PROBE_PAGE_GRAINS, BYTE_MAP_FREE);
        if (buddy_probe_remove(model->buddy, page, 1) != is_free)
            fail(model, "page %u did not merge", page);
    }
    if (buddy_probe_free_grains(model->buddy))
        fail(model, "grains are free outside of free pages");
}

static void run_steps(struct model *model)
{
    for (; model->step < model->steps && !model->message[0]; model->step++) {
        if (choices_are_over(&model->choices))
            break;
        const struct kind *kind = choose_kind(model);
        model->doing = kind->name;
        kind->run(model);
        verify(model);
    }
    finish(model);
}

bool buddy_model_run(const struct buddy_model_input *input,
                     char message[BUDDY_MODEL_MESSAGE_BYTES])
{
    struct model model = {.choices = {.random = random_start(input->seed, 0),
                                      .bytes = input->ops,
                                      .byte_count = input->op_bytes},
                          .steps = input->steps,
                          .doing = "create",
                          .message = message};
    message[0] = '\0';
    model.has_runs = choose(&model, 4) == 0;
    model.pages =
        choose(&model, 8) ? 1 + choose(&model, 6) : 63 + choose(&model, 8);
    if (model.has_runs)
        model.pages += 12;
    model.oracle = mutex_buddy_create(model.pages);
    if (!model.oracle || !byte_map_init(&model.map, model.pages) ||
        buddy_probe_create(model.pages, &model.buddy) != 0)
        fail(&model, "no memory");
    else
        run_steps(&model);
    buddy_probe_destroy(model.buddy);
    byte_map_fini(&model.map);
    mutex_buddy_destroy(model.oracle);
    return !message[0];
}
