/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the programs share that study the subjects of a replay without a trace:
 * options, and the rows that they print.
 */
#ifndef BINADE_BENCH_STUDIES_STUDY_H_
#define BINADE_BENCH_STUDIES_STUDY_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/lag/plan.h"
#include "bench/subjects/subject.h"

#define STUDY_SUBJECTS_MAX 64U

enum study_exit {
    STUDY_EXIT_OK = 0,
    STUDY_EXIT_FAILED = 1,
    STUDY_EXIT_USAGE = 2,
};

/* An option of one program: "--NAME=VALUE". */
struct study_option {
    const char *name;
    /* A number in a range, and one of these it is for; or: */
    uint64_t least;
    uint64_t most;
    uint32_t *count;
    uint64_t *number;
    bool (*parse)(const char *value);
    const char *accepted; /* what that takes, for messages */
};

/* A part of one program, which "--part=NAME[,NAME]" asks for. */
struct study_part {
    const char *name;
    bool *is_wanted;
};

/* What a row of a part begins with. */
struct study_part_row {
    const char *part;
    uint32_t threads;
    uint32_t pairs; /* of each thread */
    uint32_t repeat;
};

struct study {
    const char *program;
    const char *help;
    const struct study_option *options; /* a NULL name ends them */
    bool has_lag;                       /* the program takes --lag */
    const char *default_subjects;       /* without --subject; NULL: all */
    bool (*run)(struct study *study, const struct subject *subject,
                const struct lag_plan *lag);

    /* What all programs are told. */
    const struct subject *subjects[STUDY_SUBJECTS_MAX];
    uint32_t subject_count;
    struct lag_plans lags;
    const char *driver;
    const char *json_path;
    const char *commit;
    uint64_t seed;

    /* While it runs. */
    FILE *rows;
    const char *subject_name;
};

/* The whole program: reads the options, runs each subject with each lag, and
 * returns the exit status. */
int study_main(struct study *study, int argc, char **argv);

/* A row begins with its kind and the subject; the fields of the program come
 * between; it ends with where it was measured. */
void study_begin_row(struct study *study, const char *kind,
                     const struct lag_plan *lag);
void study_number(struct study *study, const char *key, uint64_t number);
void study_real(struct study *study, const char *key, double number);
void study_real_or_null(struct study *study, const char *key, double number,
                        bool is_known);
void study_end_row(struct study *study, const struct subject *subject);
/* The same of a part of the program; it ends with the allocations that failed. */
void study_begin_part(struct study *study, const char *kind,
                      const struct lag_plan *lag,
                      const struct study_part_row *row);
void study_end_part(struct study *study, const struct subject *subject,
                    const struct lag_plan *lag, uint64_t failed);
/* Starts the subject; NULL, or why it cannot be. */
const char *study_start_subject(const struct subject *subject,
                                const struct subject_setup *setup);
/* Such a row that says why there is none. Returns false. */
bool study_refuse(struct study *study, const char *kind,
                  const struct subject *subject, const struct lag_plan *lag,
                  const char *why);

/* A number in decimal, in its range, and nothing behind it. */
bool study_parse_number(const char *text, uint64_t least, uint64_t most,
                        uint64_t *out);
/* A list of parts, each once at most; a NULL name ends `parts`. */
bool study_parse_parts(const char *list, const struct study_part *parts);

#endif
