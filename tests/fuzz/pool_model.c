/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The frame of the model: choices, one life of a pool, its end.
 */
#include "tests/fuzz/pool_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/pool_model_state.h"
#include "tests/support/tools/pools.h"

#define MIB (UINT64_C(1) << 20)
#define STEPS_BETWEEN_CHECKS 16U

void fail(struct model *model, const char *format, ...)
{
    if (model->message[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    char what[400];
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    (void)snprintf(model->message, POOL_MODEL_MESSAGE_BYTES, "step %u (%s): %s",
                   model->step, model->doing, what);
}

void expect(struct model *model, const char *call, moiety_status status,
            moiety_status expected)
{
    if (status != expected)
        fail(model, "%s: %s, not %s: %s", call, moiety_status_name(status),
             moiety_status_name(expected), moiety_last_error_message());
}

uint32_t choose(struct model *model, uint32_t bound)
{
    return choices_below(&model->choices, bound);
}

struct named choose_stream(struct model *model)
{
    unsigned index = choose(model, STAGE_STREAMS);
    if (model->stage.streams[index].is_retired)
        index = STAGE_PER_THREAD;
    struct named named = {model->stage.streams[index].handle, index};
    if (index == STAGE_LEGACY && choose(model, 2))
        named.handle = NULL;
    return named;
}

struct named choose_any_stream(struct model *model)
{
    switch (choose(model, 6)) {
    case 0:
        return (struct named){MOIETY_STREAM_ANY, NO_STREAM};
    case 1:
        return (struct named){MOIETY_STREAM_DONE, NO_STREAM};
    default:
        return choose_stream(model);
    }
}

static const struct {
    const char *name;
    void (*take)(struct model *model);
    uint32_t weight;
} kinds[] = {
    {"alloc", step_alloc, 30},
    {"aligned alloc", step_alloc_aligned, 4},
    {"try alloc", step_try_alloc, 3},
    {"batch alloc", step_alloc_batch, 5},
    {"free", step_free, 26},
    {"sized free", step_free_sized, 6},
    {"batch free", step_free_batch, 4},
    {"free after", step_free_after, 3},
    {"free twice", step_free_twice, 2},
    {"free most", step_free_most, 1},
    {"record use", step_record_use, 4},
    {"hold", step_hold, 4},
    {"release", step_release, 5},
    {"retire", step_retire, 2},
    {"guard", step_guard, 2},
    {"capture", step_capture, 2},
    {"refuse", step_refuse, 1},
    {"trim", step_trim, 2},
    {"bad call", step_bad_call, 3},
    {"resize", step_resize, 8},
};

static void take_step(struct model *model)
{
    uint32_t total = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        total += kinds[i].weight;
    uint32_t choice = choose(model, total);
    size_t kind = 0;
    for (; choice >= kinds[kind].weight; kind++)
        choice -= kinds[kind].weight;
    model->doing = kinds[kind].name;
    kinds[kind].take(model);
    if (model->step % STEPS_BETWEEN_CHECKS == 0)
        check_stats(model);
    if (model->ledger.failure)
        fail(model, "%s: 0x%llx", model->ledger.failure,
             (unsigned long long)model->ledger.failure_address);
}

static bool is_over(const struct model *model)
{
    return model->message[0] || model->step >= model->steps ||
           choices_are_over(&model->choices);
}

static bool begin(struct model *model)
{
    static const uint64_t caches[] = {0, UINT64_C(64) << 10, MIB, 64 * MIB};
    const moiety_source source = ledger_source(&model->ledger);
    moiety_pool_options options = driver_options();
    options.source = &source;
    options.wait_ms = MOIETY_WAIT_NONE;
    options.limit_bytes = 8 * MIB << choose(model, 4);
    options.first_segment_bytes = 2 * MIB << choose(model, 3);
    options.largest_segment_bytes = 8 * MIB << choose(model, 3);
    options.thread_cache_bytes = bytes_of(caches[choose(model, 4)]);
    options.flags = choose(model, 2) ? MOIETY_POOL_REUSE_DEPENDENCIES : 0;
    model->options = options;
    expect(model, "create", moiety_pool_create(&options, &model->pool),
           MOIETY_OK);
    return !model->message[0];
}

/* Nothing is live and nothing pending, so nothing may stay behind. */
static void trim_to_nothing(struct model *model)
{
    for (int i = 0; i < 3 && model->ledger.held_bytes; i++) {
        expect(model, "last trim", moiety_pool_trim(model->pool, 0, NULL),
               MOIETY_OK);
        if (!stage_settle())
            fail(model, "the driver does not settle");
    }
    if (model->ledger.held_bytes)
        fail(model, "%llu bytes are not to be got back by a trim",
             (unsigned long long)model->ledger.held_bytes);
}

static void destroy(struct model *model)
{
    moiety_leaks leaks = {.struct_size = sizeof(leaks)};
    expect(model, "destroy", moiety_pool_destroy(model->pool, &leaks),
           MOIETY_OK);
    if (leaks.block_count != model->live_count ||
        leaks.bytes != model->live_bytes)
        fail(model, "%llu blocks of %llu bytes leaked, not %u of %llu",
             (unsigned long long)leaks.block_count,
             (unsigned long long)leaks.bytes, model->live_count,
             (unsigned long long)model->live_bytes);
    if (model->ledger.held_bytes)
        fail(model, "a destroyed pool holds segments");
    moiety_devptr address;
    expect(model, "late alloc",
           moiety_alloc(model->pool, 1, MOIETY_STREAM_ANY, &address),
           MOIETY_E_DESTROYED);
    expect(model, "late destroy", moiety_pool_destroy(model->pool, NULL),
           MOIETY_E_DESTROYED);
}

static void end(struct model *model)
{
    model->doing = "the end";
    settle_all(model);
    check_stats(model);
    if (choose(model, 4)) {
        free_all(model);
        if (!stage_settle())
            fail(model, "the driver does not settle");
        trim_to_nothing(model);
        check_stats(model);
    }
    model->ledger.is_ending = true;
    destroy(model);
    if (model->ledger.failure)
        fail(model, "%s", model->ledger.failure);
}

static void live_once(struct model *model)
{
    if (!begin(model))
        return;
    for (model->step = 1; !is_over(model); model->step++)
        take_step(model);
    if (!model->message[0])
        end(model);
    else
        settle_all(model);
}

bool pool_model_run(const struct pool_model_input *input,
                    char message[POOL_MODEL_MESSAGE_BYTES])
{
    message[0] = '\0';
    struct model *model = calloc(1, sizeof(*model));
    if (!model || !stage_open() || !ledger_init(&model->ledger))
        abort();
    int64_t objects = stage_live_objects();
    model->steps = input->steps;
    model->choices = (struct choices){.random = random_start(input->seed, 0),
                                      .bytes = input->ops,
                                      .byte_count = input->op_bytes};
    model->doing = "the beginning";
    model->message = message;
    if (stage_init(&model->stage))
        live_once(model);
    else
        fail(model, "no streams");
    stage_fini(&model->stage);
    if (stage_live_objects() != objects)
        fail(model, "the pool left %lld objects of the driver behind",
             (long long)(stage_live_objects() - objects));
    ledger_fini(&model->ledger);
    free(model);
    return !message[0];
}
