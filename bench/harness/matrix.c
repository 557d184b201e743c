/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The outer loop is over repeats and the inner one over subjects, so that a
 * machine that slows down for a while does so for all of them. Each process
 * gets the part of the time that is left which its cells are of all cells that
 * are left. A cell that ends its process, or is killed because it takes too
 * long, is given up, and another process goes on with the cells behind it; so
 * it does when a process has used up its time.
 */
#define _GNU_SOURCE
#include "bench/harness/matrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/base/clock.h"
#include "bench/base/spawn.h"

static const char no_time[] = "no time was left";

/* A process under way. */
struct job {
    struct matrix *matrix;
    uint32_t subject_index;
    uint32_t first; /* cell that it may run */
    uint32_t begun; /* cells up to here, this one excluded, are dealt with or
                       under way */
    bool is_in_cell;
    uint64_t deadline_ns;
    struct spawn spawn;
};

bool matrix_init(struct matrix *matrix, const struct options *options,
                 const struct plan *plan)
{
    size_t count = (size_t)options->subject_count * plan->cell_count;
    *matrix = (struct matrix){.options = options, .plan = plan};
    matrix->deadline_ns =
        clock_now_ns() + options->budget_s * UINT64_C(1000000000);
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
    return true;
}

void matrix_fini(struct matrix *matrix)
{
    free(matrix->measurements);
    free(matrix->findings);
    free(matrix->subjects);
}

static bool is_wanted(const struct matrix *matrix, uint32_t s, uint32_t c)
{
    return !matrix->subjects[s].is_refused &&
           !matrix_finding(matrix, s, c)->is_given_up &&
           plan_applies(&matrix->plan->cells[c], matrix->subjects[s].subject);
}

static uint32_t count_wanted(const struct matrix *matrix, uint32_t s,
                             uint32_t first_cell)
{
    uint32_t count = 0;
    for (uint32_t c = first_cell; c < matrix->plan->cell_count; c++)
        count += is_wanted(matrix, s, c);
    return count;
}

static void refuse(struct matrix *matrix, struct matrix_subject *entry,
                   const char *why)
{
    entry->is_refused = true;
    matrix->has_refused |= matrix->options->names_subjects;
    (void)fprintf(stderr, "bench: %s cannot run here: %s\n",
                  entry->subject->name, why);
}

static void note_why(struct matrix *matrix, struct finding *finding,
                     const char *why)
{
    matrix->has_failed = true;
    (void)snprintf(finding->why, sizeof(finding->why), "%s", why);
}

/* Said once for each cell and reason. */
static void fail(struct matrix *matrix, uint32_t s, uint32_t c, const char *why)
{
    const struct plan_cell *cell = &matrix->plan->cells[c];
    struct finding *finding = matrix_finding(matrix, s, c);
    if (strncmp(finding->why, why, sizeof(finding->why) - 1) != 0)
        (void)fprintf(stderr, "bench: %s, %s, %u threads, %zu bytes: %s\n",
                      matrix->subjects[s].subject->name, cell->workload->name,
                      cell->thread_count, cell->size_bytes, why);
    note_why(matrix, finding, why);
}

/* All cells from this one on, for a reason that is said already. */
static void fail_from(struct matrix *matrix, uint32_t s, uint32_t first_cell,
                      const char *why)
{
    for (uint32_t c = first_cell; c < matrix->plan->cell_count; c++)
        if (is_wanted(matrix, s, c))
            note_why(matrix, matrix_finding(matrix, s, c), why);
}

/* What does not end by itself when the time of all is up is killed then. */
static void begin_cell(struct job *job, const struct child_line *line)
{
    uint64_t all_ns = job->matrix->deadline_ns;
    job->begun = line->cell_index + 1;
    job->is_in_cell = true;
    job->spawn.deadline_ns =
        line->deadline_ns < all_ns ? line->deadline_ns : all_ns;
}

/* What follows is the next cell, at once, or the process' end. */
static void end_cell(struct job *job, const struct child_line *line)
{
    job->begun = line->cell_index + 1;
    job->is_in_cell = false;
    job->spawn.deadline_ns = clock_now_ns() + CHILD_PATIENCE_NS;
}

static void keep(struct job *job, const struct child_line *line)
{
    struct matrix *matrix = job->matrix;
    struct finding *finding =
        matrix_finding(matrix, job->subject_index, line->cell_index);
    end_cell(job, line);
    if (finding->count == matrix->options->repeats)
        return;
    finding->of_process[finding->count++] = line->measurement;
    if (matrix->note)
        matrix->note(matrix->note_context, matrix, job->subject_index,
                     line->cell_index);
}

static void take_line(const char *text, void *context)
{
    struct job *job = context;
    struct matrix *matrix = job->matrix;
    struct matrix_subject *entry = &matrix->subjects[job->subject_index];
    struct child_line line;
    child_read_line(text, &line);
    if (line.cell_index >= matrix->plan->cell_count)
        line.verb = CHILD_NONSENSE;
    switch (line.verb) {
    case CHILD_RUNS:
        entry->is_standin = line.is_standin;
        entry->is_simulated = line.is_simulated;
        memcpy(entry->driver, line.text, sizeof(entry->driver));
        break;
    case CHILD_REFUSES:
        refuse(matrix, entry, line.text);
        break;
    case CHILD_BEGIN:
        begin_cell(job, &line);
        break;
    case CHILD_CELL:
        keep(job, &line);
        break;
    case CHILD_FAILS:
        end_cell(job, &line);
        fail(matrix, job->subject_index, line.cell_index, line.text);
        break;
    case CHILD_NONSENSE:
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

/* Until when this process may run: of what is left, the part that its cells are
 * of those that are left to it and to the processes after it. */
static uint64_t choose_deadline_ns(const struct matrix *matrix, uint32_t repeat,
                                   uint32_t subject_index, uint32_t first_cell)
{
    const struct options *options = matrix->options;
    uint64_t own = count_wanted(matrix, subject_index, first_cell);
    uint64_t all = own;
    uint64_t now_ns = clock_now_ns();
    for (uint32_t s = 0; s < options->subject_count; s++)
        all += (uint64_t)count_wanted(matrix, s, 0) *
               (options->repeats - repeat - (s <= subject_index));
    if (now_ns >= matrix->deadline_ns || all == 0)
        return now_ns;
    return now_ns + (matrix->deadline_ns - now_ns) / all * own;
}

/* After a process that did not end well. The first cell that is still to be
 * run. */
static uint32_t resume_at(struct job *job, int status)
{
    struct matrix *matrix = job->matrix;
    uint32_t s = job->subject_index;
    const char *why = "its process failed";
    if (clock_now_ns() >= matrix->deadline_ns)
        why = no_time;
    else if (status == SPAWN_OVERRAN)
        why = "it took too long and was killed";
    else if (status == SPAWN_ENDED)
        why = "its process was ended by a signal or did not start";
    (void)fprintf(stderr, "bench: the process that ran %s: %s\n",
                  matrix->subjects[s].subject->name, why);
    matrix->has_failed = true;
    if (job->is_in_cell) {
        fail(matrix, s, job->begun - 1, why);
        matrix_finding(matrix, s, job->begun - 1)->is_given_up = true;
        return job->begun;
    }
    /* It did not end when it was told to; the next one may go on. */
    if (job->begun > job->first)
        return job->begun;
    /* The subject does not start. */
    fail_from(matrix, s, job->begun, why);
    for (uint32_t c = job->begun; c < matrix->plan->cell_count; c++)
        matrix_finding(matrix, s, c)->is_given_up = true;
    return matrix->plan->cell_count;
}

/* For the start of the process. */
static uint64_t first_deadline_ns(const struct job *job)
{
    uint64_t patient_ns = clock_now_ns() + CHILD_PATIENCE_NS;
    uint64_t deadline_ns =
        job->deadline_ns > patient_ns ? job->deadline_ns : patient_ns;
    return deadline_ns < job->matrix->deadline_ns ? deadline_ns
                                                  : job->matrix->deadline_ns;
}

/* Our own arguments and three more, which win over what comes before. */
static int run_process(struct job *job, char **argv, int argc, char *cells)
{
    const struct matrix *matrix = job->matrix;
    const char *name = matrix->subjects[job->subject_index].subject->name;
    char child[64];
    char deadline[64];
    (void)snprintf(child, sizeof(child), "--child=%s", name);
    (void)snprintf(deadline, sizeof(deadline), "--deadline-ns=%llu",
                   (unsigned long long)job->deadline_ns);
    argv[argc] = child;
    argv[argc + 1] = deadline;
    argv[argc + 2] = cells;
    job->spawn = (struct spawn){
        .argv = argv,
        .take = take_line,
        .context = job,
        .deadline_ns = first_deadline_ns(job),
    };
    return spawn_run(&job->spawn);
}

/* A '1' for each cell that a process is to run. */
static void write_cells(const struct matrix *matrix, uint32_t s, uint32_t first,
                        char *text)
{
    uint32_t count = matrix->plan->cell_count;
    text = stpcpy(text, "--cells=");
    for (uint32_t c = 0; c < count; c++)
        text[c] = c >= first && is_wanted(matrix, s, c) ? '1' : '0';
    text[count] = '\0';
}

/* One subject once, over all its cells: in one process if all is well. */
static void run_subject(struct matrix *matrix, uint32_t repeat, uint32_t s,
                        char **argv, int argc, char *cells)
{
    uint32_t first = 0;
    uint32_t tried = UINT32_MAX;
    while (!matrix->is_interrupted && count_wanted(matrix, s, first) > 0) {
        struct job job = {.matrix = matrix,
                          .subject_index = s,
                          .first = first,
                          .begun = first};
        job.deadline_ns = choose_deadline_ns(matrix, repeat, s, first);
        /* One that could not even begin would not the next time. */
        if (job.deadline_ns <= clock_now_ns() || tried == first) {
            (void)fprintf(stderr, "bench: %s for %s\n", no_time,
                          matrix->subjects[s].subject->name);
            fail_from(matrix, s, first, no_time);
            return;
        }
        tried = first;
        write_cells(matrix, s, first, cells);
        int status = run_process(&job, argv, argc, cells);
        matrix->is_interrupted = spawn_is_interrupted();
        if (!matrix->is_interrupted)
            first = status == 0 ? job.begun : resume_at(&job, status);
    }
}

void matrix_run(struct matrix *matrix, int argc, char **argv)
{
    const struct options *options = matrix->options;
    char **child_argv = calloc((size_t)argc + 4, sizeof(*child_argv));
    char *cells = malloc(matrix->plan->cell_count + (size_t)16);
    matrix->has_failed = !child_argv || !cells;
    if (!matrix->has_failed) {
        memcpy(child_argv, argv, (size_t)argc * sizeof(*argv));
        child_argv[0] = "/proc/self/exe";
    }
    for (uint32_t r = 0; child_argv && cells && r < options->repeats; r++) {
        for (uint32_t s = 0; s < options->subject_count; s++) {
            show_progress(matrix, r, matrix->subjects[s].subject->name);
            run_subject(matrix, r, s, child_argv, argc, cells);
            hide_progress();
        }
    }
    free(cells);
    free(child_argv);
}
