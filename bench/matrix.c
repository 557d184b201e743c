/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The outer loop is over repeats and the inner one over subjects, so that a
 * machine that slows down for a while does so for all of them.
 */
#define _GNU_SOURCE
#include "bench/matrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/spawn.h"

#define CELL_US_MAX 100000U
#define CELL_US_GOOD 20000U
#define CELL_US_MIN 1000U
/* Of the budget; the rest is for setting up, and for repetitions that are
 * repeated. */
#define MEASURE_PERCENT 50U

/* Where one process' lines go. */
struct listener {
    struct matrix *matrix;
    uint32_t subject_index;
};

static uint64_t choose_cell_us(const struct options *options,
                               const struct plan *plan)
{
    uint64_t count = 0;
    for (uint32_t s = 0; s < options->subject_count; s++)
        for (uint32_t c = 0; c < plan->cell_count; c++)
            count += plan_applies(&plan->cells[c], options->subjects[s]);
    count *= options->repeats;
    uint64_t budget_us =
        (uint64_t)options->budget_s * 1000000 * MEASURE_PERCENT / 100;
    uint64_t cell_us = count ? budget_us / count : CELL_US_MAX;
    if (cell_us > CELL_US_MAX)
        return CELL_US_MAX;
    return cell_us > CELL_US_MIN ? cell_us : CELL_US_MIN;
}

bool matrix_init(struct matrix *matrix, const struct options *options,
                 const struct plan *plan)
{
    size_t count = (size_t)options->subject_count * plan->cell_count;
    *matrix = (struct matrix){.options = options, .plan = plan};
    matrix->subjects =
        calloc(options->subject_count, sizeof(*matrix->subjects));
    matrix->findings = calloc(count, sizeof(*matrix->findings));
    matrix->measurements =
        calloc(count * options->repeats, sizeof(*matrix->measurements));
    if (!matrix->subjects || !matrix->findings || !matrix->measurements)
        return false;
    for (uint32_t s = 0; s < options->subject_count; s++)
        matrix->subjects[s].subject = options->subjects[s];
    for (size_t i = 0; i < count; i++)
        matrix->findings[i].of_process =
            &matrix->measurements[i * options->repeats];
    matrix->cell_us = choose_cell_us(options, plan);
    return true;
}

void matrix_fini(struct matrix *matrix)
{
    free(matrix->measurements);
    free(matrix->findings);
    free(matrix->subjects);
}

static void refuse(struct matrix *matrix, struct matrix_subject *entry,
                   const char *why)
{
    entry->is_refused = true;
    matrix->has_refused |= matrix->options->names_subjects;
    (void)fprintf(stderr, "bench: %s cannot run here: %s\n",
                  entry->subject->name, why);
}

static void fail(struct matrix *matrix, const struct matrix_subject *entry,
                 const struct child_line *line)
{
    const struct plan_cell *cell = &matrix->plan->cells[line->cell_index];
    matrix->has_failed = true;
    (void)fprintf(stderr, "bench: %s, %s, %u threads, %zu bytes: %s\n",
                  entry->subject->name, cell->workload->name,
                  cell->thread_count, cell->size_bytes, line->text);
}

static void take_line(const char *text, void *context)
{
    struct listener *listener = context;
    struct matrix *matrix = listener->matrix;
    struct matrix_subject *entry = &matrix->subjects[listener->subject_index];
    struct child_line line;
    child_read_line(text, &line);
    if (line.cell_index >= matrix->plan->cell_count)
        line.verb = CHILD_NONSENSE;
    struct finding *finding =
        &matrix->findings[(size_t)listener->subject_index *
                              matrix->plan->cell_count +
                          line.cell_index % matrix->plan->cell_count];
    if (line.verb == CHILD_RUNS) {
        entry->is_standin = line.is_standin;
        entry->is_simulated = line.is_simulated;
        memcpy(entry->driver, line.text, sizeof(entry->driver));
    } else if (line.verb == CHILD_REFUSES) {
        refuse(matrix, entry, line.text);
    } else if (line.verb == CHILD_FAILS) {
        fail(matrix, entry, &line);
    } else if (line.verb == CHILD_CELL &&
               finding->count < matrix->options->repeats) {
        finding->of_process[finding->count++] = line.measurement;
    } else {
        matrix->has_failed = true;
        (void)fprintf(stderr, "bench: %s printed: %s", entry->subject->name,
                      text);
    }
}

static void show_progress(const struct matrix *matrix, uint32_t repeat,
                          const char *name)
{
    if (isatty(STDERR_FILENO))
        (void)fprintf(stderr, "\r\033[Krepeat %u of %u: %s", repeat + 1,
                      matrix->options->repeats, name);
}

static void hide_progress(void)
{
    if (isatty(STDERR_FILENO))
        (void)fputs("\r\033[K", stderr);
}

/* Our own arguments and two more, which win over what comes before. */
static void run_process(struct matrix *matrix, uint32_t subject_index,
                        char **argv, int argc)
{
    struct listener listener = {matrix, subject_index};
    const char *name = matrix->subjects[subject_index].subject->name;
    char child[64];
    char cell_us[64];
    (void)snprintf(child, sizeof(child), "--child=%s", name);
    (void)snprintf(cell_us, sizeof(cell_us), "--cell-us=%llu",
                   (unsigned long long)matrix->cell_us);
    argv[argc] = child;
    argv[argc + 1] = cell_us;
    int status = spawn_lines(argv, 0, take_line, &listener);
    if (status == 0)
        return;
    matrix->has_failed = true;
    (void)fprintf(stderr, "bench: the process that ran %s %s\n", name,
                  status < 0 ? "was ended by a signal or did not start"
                             : "failed");
}

void matrix_run(struct matrix *matrix, int argc, char **argv)
{
    const struct options *options = matrix->options;
    char **child_argv = calloc((size_t)argc + 3, sizeof(*child_argv));
    if (!child_argv) {
        matrix->has_failed = true;
        return;
    }
    memcpy(child_argv, argv, (size_t)argc * sizeof(*argv));
    child_argv[0] = "/proc/self/exe";
    if (matrix->cell_us < CELL_US_GOOD) {
        (void)fprintf(stderr,
                      "bench: the budget leaves %llu us a cell; below %u "
                      "numbers are rough\n",
                      (unsigned long long)matrix->cell_us, CELL_US_GOOD);
    }
    for (uint32_t r = 0; r < options->repeats; r++) {
        for (uint32_t s = 0; s < options->subject_count; s++) {
            if (matrix->subjects[s].is_refused)
                continue;
            show_progress(matrix, r, matrix->subjects[s].subject->name);
            run_process(matrix, s, child_argv, argc);
            hide_progress();
        }
    }
    free(child_argv);
}
