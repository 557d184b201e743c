/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the programs share that study the subjects of a replay without a trace:
 * options, the loop over subjects and parts, and the rows that they print.
 */
#ifndef MOIETY_BENCH_STUDIES_STUDY_H_
#define MOIETY_BENCH_STUDIES_STUDY_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/base/command_line.h"
#include "bench/lag/plan.h"
#include "bench/subjects/subject.h"

/* A pool has its memory in such pieces. */
#define STUDY_LIMIT_STEP_BYTES (UINT64_C(2) << 20)
#define STUDY_REPEATS_MAX 100U

/* What their help says of options that all of them have. */
#define STUDY_HELP                                                             \
    "  --driver=D       auto, cuda, standin or a path with a / in it "         \
    "(default:\n"                                                              \
    "                   what MOIETY_DRIVER says)\n"                            \
    "  --json=FILE      write there instead of to standard output\n"           \
    "  --commit=ID      of what is measured (default: what git says)\n"

/* A part of a program, with one subject and one lag, once. */
struct study_bout {
    struct study *study;
    const struct subject *subject; /* beside a device that lags so */
    const struct subject *named;   /* the same without that */
    const struct lag_plan *lag;
    const char *part;
    uint32_t repeat;
};

struct study_part {
    const char *name; /* NULL ends a list */
    /* Prints rows; false: none more of this subject and this lag. */
    bool (*run)(const struct study_bout *bout);
};

struct study {
    const char *program; /* the kind of its rows, too */
    const char *help;
    /* Beside those that all have; a NULL name ends them. */
    const struct command_option *options;
    bool has_lag;                   /* the program takes --lag */
    const char *default_subjects;   /* without --subject; NULL: all */
    const struct study_part *parts; /* in the order in which they run */
    /* Why it cannot be asked of a subject, or NULL; may be NULL itself. */
    const char *(*refusal)(const struct subject *subject);

    /* For options of the program. */
    uint32_t wanted; /* bit i: part i; none: all */
    uint32_t repeats;

    /* What all programs are told. */
    struct subject_list subjects;
    struct lag_plans lags;
    const char *driver;
    const char *json_path;
    const char *commit;
    uint64_t seed;
    bool is_help;

    FILE *rows; /* while it runs */
};

/* The whole program: reads the options, runs each subject with each lag, and
 * returns the exit status. */
int study_main(struct study *study, int argc, char **argv);

/* For an option "--part=NAME[,NAME]", into the study. */
bool study_read_parts(const char *names, void *study);

/* For an option "--memory=fixed|mapped|both" of a program that is about Moiety's
 * pools alone: into its default subjects. */
bool study_read_memory(const char *name, void *subjects);
/* The refusal of such a program. */
const char *study_refuse_others(const struct subject *subject);

/* A row begins with its kind and the subject; the fields of the program come
 * between; it ends with where it was measured. */
void study_begin_row(const struct study_bout *bout);
void study_number(const struct study_bout *bout, const char *key,
                  uint64_t number);
void study_real(const struct study_bout *bout, const char *key, double number);
void study_end_row(const struct study_bout *bout);
/* The same of one of several parts; it ends with the allocations that failed.
 * The pairs are each thread's. */
void study_begin_part(const struct study_bout *bout, uint32_t thread_count,
                      uint32_t pairs);
void study_end_part(const struct study_bout *bout, uint64_t failed);
/* Such a row that says why there is none. Returns false. */
bool study_refuse(const struct study_bout *bout, const char *why);

/* Starts the subject; NULL, or why it cannot be. */
const char *study_start_subject(const struct subject *subject,
                                const struct subject_setup *setup);

#endif
