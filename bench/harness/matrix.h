/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * All cells of all subjects, each measured by several processes.
 */
#ifndef MOIETY_BENCH_HARNESS_MATRIX_H_
#define MOIETY_BENCH_HARNESS_MATRIX_H_

#include "bench/harness/child.h"
#include "bench/harness/options.h"
#include "bench/harness/plan.h"

#define MATRIX_WHY_BYTES 128

/* What the processes found for one cell of one subject. */
struct finding {
    struct measurement *of_process; /* `count` of them; the matrix owns it */
    uint32_t count;
    /* It ended its process, or took too long: it is not tried again. */
    bool is_given_up;
    char why[MATRIX_WHY_BYTES]; /* "", or why some process did not measure it */
};

struct matrix_subject {
    const struct subject *subject;
    bool is_refused;
    bool is_standin;
    bool is_simulated;
    char driver[CHILD_TEXT_BYTES];
};

struct matrix {
    const struct options *options;
    const struct plan *plan;
    struct matrix_subject *subjects; /* as many as the options name */
    struct finding *findings;        /* [subject][cell of the plan] */
    struct measurement *measurements;
    uint64_t deadline_ns;
    bool has_failed; /* a process or a cell, and it was said */
    bool has_refused;
    bool is_interrupted;

    /* Told of each measurement as it comes, as the last of its finding. NULL:
     * nobody is. */
    void (*note)(void *context, const struct matrix *matrix,
                 uint32_t subject_index, uint32_t cell_index);
    void *note_context;
};

/* False: no memory. */
bool matrix_init(struct matrix *matrix, const struct options *options,
                 const struct plan *plan);
void matrix_fini(struct matrix *matrix);

/* Runs the processes, until all is measured or time is up. `argv` are the
 * arguments that ours was started with. */
void matrix_run(struct matrix *matrix, int argc, char **argv);

static inline struct finding *matrix_finding(const struct matrix *matrix,
                                             uint32_t subject_index,
                                             uint32_t cell_index)
{
    return &matrix->findings[(size_t)subject_index * matrix->plan->cell_count +
                             cell_index];
}

#endif
