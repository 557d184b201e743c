/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the server is told on its command line.
 */
#ifndef MOIETY_BENCH_SERVER_OPTIONS_H_
#define MOIETY_BENCH_SERVER_OPTIONS_H_

#include <stdbool.h>
#include <stdint.h>

#include "bench/server/staging.h"
#include "bench/server/subjects/subject.h"

#define SERVER_SUBJECTS_MAX 8U

enum server_exit {
    SERVER_OK = 0,
    SERVER_WRONG = 1,     /* a wrong byte, a leak, or a call that failed */
    SERVER_USAGE = 2,     /* bad argument */
    SERVER_NO_DRIVER = 3, /* no driver or device that was asked for */
};

struct server_options {
    const char *driver; /* as MOIETY_DRIVER takes it */
    const char *json_path;
    const struct server_subject *subjects[SERVER_SUBJECTS_MAX];
    unsigned subject_count;
    uint32_t thread_count;
    int device;
    enum server_staging_kind staging;
    bool is_help;
    /* Of all subjects together; 0 with no requests either: no serving. */
    double seconds;
    uint64_t request_count; /* a subject; 0: as many as the time allows */
    uint64_t seed;
};

/* 0, or -1 after saying on stderr what is wrong. */
int server_options_parse(int argc, char **argv, struct server_options *out);

void server_options_print_usage(void);

#endif
