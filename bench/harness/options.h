/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The command line of the benchmarks.
 */
#ifndef MOIETY_BENCH_HARNESS_OPTIONS_H_
#define MOIETY_BENCH_HARNESS_OPTIONS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/lag/plan.h"
#include "bench/subjects/subject.h"
#include "bench/workloads/workload.h"

#define OPTIONS_LIST_MAX 32U

/* Microseconds a cell. With less than a millisecond a repetition is no longer
 * than what the system does now and then. */
#define CELL_US_MIN 1000U
#define CELL_US_DEFAULT 100000U
#define CELL_US_MAX 10000000U

struct options {
    const struct workload *workloads[OPTIONS_LIST_MAX];
    uint32_t workload_count;
    const struct subject *subjects[OPTIONS_LIST_MAX];
    uint32_t subject_count;
    uint64_t threads[OPTIONS_LIST_MAX];
    uint32_t threads_count;
    uint64_t sizes_bytes[OPTIONS_LIST_MAX];
    uint32_t size_count;
    uint32_t repeats;  /* processes a subject */
    uint32_t budget_s; /* of the whole matrix */
    uint64_t cell_us;  /* most that a cell is measured, set-up apart */
    uint32_t streams;  /* that all threads share; 0: each has its own */
    uint64_t seed;
    struct lag_plan lag;
    const char *json_path; /* NULL: standard output */
    const char *driver;    /* NULL: MOIETY_DRIVER, as it is */
    const char *commit;    /* NULL: ask git */
    bool names_subjects;   /* then one that cannot run is an error */
    bool is_list;
    bool is_help;

    /* How the program calls itself, not for users: this subject alone; of the
     * plan's cells those whose character is '1'; and until when, by
     * clock_now_ns(). */
    const struct subject *child;
    const char *cells;
    uint64_t deadline_ns;
};

/* 0, or -1 after saying what is wrong. Sets what was not given. */
int options_parse(int argc, char **argv, struct options *out);

void options_print_help(void);
void options_print_list(void);

#endif
