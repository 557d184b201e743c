/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/oom/oracle/program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 32768U
#define COMB_MOST 256U

static void add(struct program *program, struct step step)
{
    if (program->count == program->capacity) {
        program->capacity = 2 * program->capacity + 64;
        program->steps = realloc(program->steps,
                                 program->capacity * sizeof(*program->steps));
        kit_require(program->steps != NULL, "realloc");
    }
    program->steps[program->count++] = step;
}

static struct step random_step(const struct program *program, uint64_t *random)
{
    struct step step = {
        .thread = random_below(random, program->setting.thread_count),
        .stream = random_below(random, DEVICE_STREAMS),
        .slot = random_below(random, PROGRAM_SLOTS / 8),
        .how = random_how(random),
        .other = random_below(random, DEVICE_STREAMS),
        .size_bytes = random_size(random, program->setting.limit_bytes),
    };
    return step;
}

/* A stream gets many small blocks and frees all but one of each chunk: memory
 * that is free, and cut. */
static void add_comb(struct program *program, uint64_t *random)
{
    struct step step = random_step(program, random);
    uint32_t count = 32 + random_below(random, COMB_MOST - 32);
    uint32_t first = random_below(random, PROGRAM_SLOTS - count);
    step.size_bytes = UINT64_C(512) << random_below(random, 6);
    uint32_t per_chunk = (uint32_t)(CHUNK_BYTES / step.size_bytes);
    for (uint32_t i = 0; i < count; i++) {
        step.kind = STEP_ALLOC;
        step.slot = first + i;
        add(program, step);
    }
    for (uint32_t i = 0; i < count; i++) {
        step.kind = STEP_FREE;
        step.slot = first + i;
        if (i % per_chunk)
            add(program, step);
    }
}

/* All blocks of some slots, one after the other. */
static void add_sweep(struct program *program, uint64_t *random)
{
    struct step step = random_step(program, random);
    uint32_t count = random_below(random, PROGRAM_SLOTS);
    step.kind = STEP_FREE;
    for (uint32_t i = 0; i < count; i++) {
        step.slot = i;
        add(program, step);
    }
}

static void add_random(struct program *program, uint64_t *random)
{
    struct step step = random_step(program, random);
    uint32_t choice = random_below(random, 1000);
    if (choice == 0) {
        add_sweep(program, random);
        return;
    }
    if (choice < 5) {
        add_comb(program, random);
        return;
    }
    if (choice < 560) {
        step.kind = STEP_ALLOC;
        if (random_once_in(random, 16))
            step.stream = HISTORY_NO_STREAM;
    } else if (choice < 900) {
        step.kind = STEP_FREE;
    } else if (choice < 995) {
        bool queues =
            random_below(random, 100) < program->setting.queue_percent;
        step.kind = queues ? STEP_QUEUE : STEP_FINISH;
    } else {
        step.kind = STEP_END;
    }
    add(program, step);
}

struct program program_make(uint64_t seed, size_t step_count,
                            const struct chances *chances)
{
    uint64_t random = random_start(seed, 0);
    struct program program = {.seed = seed, .chances = *chances};
    program.setting = random_setting(&random, chances);
    /* Waiting takes long, and nothing happens meanwhile. */
    if (program.setting.wait_ms)
        step_count /= 8;
    while (program.count < step_count)
        add_random(&program, &random);
    return program;
}

struct program program_copy(const struct program *program)
{
    struct program copy = *program;
    copy.steps = malloc((copy.capacity + 1) * sizeof(*copy.steps));
    kit_require(copy.steps != NULL, "malloc");
    if (copy.count)
        memcpy(copy.steps, program->steps, copy.count * sizeof(*copy.steps));
    return copy;
}

void program_free(struct program *program)
{
    free(program->steps);
    program->steps = NULL;
    program->count = program->capacity = 0;
}

void program_cut(struct program *program, size_t first, size_t count)
{
    size_t end = first + count;
    memmove(&program->steps[first], &program->steps[end],
            (program->count - end) * sizeof(*program->steps));
    program->count -= count;
}

static void print_alloc(const struct step *step, FILE *out)
{
    (void)fprintf(out, "allocate %" PRIu64 " into slot %" PRIu32 " for ",
                  step->size_bytes, step->slot);
    if (step->stream == HISTORY_NO_STREAM)
        (void)fputs("ANY", out);
    else
        (void)fprintf(out, "stream %" PRIu32, step->stream);
}

static void print_free(const struct step *step, FILE *out)
{
    (void)fprintf(out, "free slot %" PRIu32, step->slot);
    switch (step->how) {
    case FREE_USED:
        (void)fprintf(out, " on stream %" PRIu32 ", used on stream %" PRIu32,
                      step->stream, step->other);
        break;
    case FREE_AFTER:
        (void)fprintf(out, " after an event on stream %" PRIu32, step->stream);
        break;
    case FREE_ANY:
        (void)fputs(" with ANY", out);
        break;
    case FREE_DONE:
        (void)fputs(" with DONE", out);
        break;
    case FREE_ON:
    default:
        (void)fprintf(out, " on stream %" PRIu32, step->stream);
        break;
    }
}

static void print_step(const struct step *step, FILE *out)
{
    (void)fprintf(out, "  thread %" PRIu32 ": ", step->thread);
    switch (step->kind) {
    case STEP_ALLOC:
        print_alloc(step, out);
        break;
    case STEP_FREE:
        print_free(step, out);
        break;
    case STEP_QUEUE:
        (void)fprintf(out, "queue work on stream %" PRIu32, step->stream);
        break;
    case STEP_FINISH:
        (void)fprintf(out, "finish stream %" PRIu32, step->stream);
        break;
    case STEP_END:
    default:
        (void)fputs("end, and another takes its place", out);
        break;
    }
    (void)fputc('\n', out);
}

void program_print(const struct program *program, size_t most, FILE *out)
{
    const struct setting *setting = &program->setting;
    size_t first = program->count > most ? program->count - most : 0;
    (void)fprintf(out,
                  "  seed %" PRIu64 ", limit %" PRIu64 ", segments %" PRIu64
                  " to %" PRIu64 ", thread cache %" PRIu64 ", wait %" PRIu32
                  " ms; the last %zu of %zu steps:\n",
                  program->seed, setting->limit_bytes,
                  setting->first_segment_bytes, setting->largest_segment_bytes,
                  setting->thread_cache_bytes, setting->wait_ms,
                  program->count - first, program->count);
    for (size_t i = first; i < program->count; i++)
        print_step(&program->steps[i], out);
}
