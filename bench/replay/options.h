/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The command line of the replay.
 */
#ifndef MOIETY_BENCH_REPLAY_OPTIONS_H_
#define MOIETY_BENCH_REPLAY_OPTIONS_H_

#include <stdbool.h>
#include <stdint.h>

#include "bench/lag/plan.h"
#include "bench/subjects/subject.h"

#define REPLAY_SAMPLES_MAX 100000U

enum replay_exit {
    REPLAY_EXIT_OK = 0,
    REPLAY_EXIT_FAILED = 1,
    REPLAY_EXIT_USAGE = 2,
    REPLAY_EXIT_TRACE = 3,
};

struct replay_options {
    struct subject_list subjects;
    struct lag_plans lags; /* of a child: one */
    char **paths;
    int path_count;
    const char *driver;    /* NULL: what MOIETY_DRIVER says */
    const char *json_path; /* NULL: standard output */
    const char *commit;    /* NULL: what git says */
    uint64_t limit_bytes;
    uint32_t threads;
    uint32_t repeats;
    uint32_t samples;
    uint32_t touch_pages;
    uint32_t repeat; /* of a child: which */
    bool is_concurrent;
    bool is_bisect;
    bool is_fit; /* is_bisect too */
    bool is_map;
    bool is_progress;
    bool is_check;
    bool is_list;
    bool is_help;
    bool is_child;
};

/* -1: what is wrong was said on standard error. */
int replay_options_parse(int argc, char **argv, struct replay_options *out);
void replay_options_print_help(void);
void replay_options_print_list(void);

#endif
