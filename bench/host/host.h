/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the files of //bench:host share: its options, its parts, and what each
 * part is given. A part measures in a process of its own and prints a row
 * (bench/host/row.h) for each measurement as it comes.
 */
#ifndef MOIETY_BENCH_HOST_HOST_H_
#define MOIETY_BENCH_HOST_HOST_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOST_MIB ((size_t)1 << 20)
#define HOST_STARTS_MAX 8U
#define HOST_WORKERS_MAX 64U
#define HOST_OTHERS_OURS UINT64_MAX

struct host_options {
    bool is_help;
    const char *driver; /* NULL: what MOIETY_DRIVER says */
    const char *commit; /* NULL: what git says */
    const char *python; /* NULL: no peers */
    const char *peers;  /* the script that measures them */
    uint32_t parts;     /* bit i: part i of host_parts */
    uint64_t repeats;   /* processes for each part */
    uint64_t budget_s;
    uint64_t cell_ms;   /* that one measurement goes on */
    uint64_t block_mib; /* of the bandwidth and the pipeline */
    uint64_t workers;   /* of the pipeline; 0: one for each processor, <= 16 */
    uint64_t start_mib[HOST_STARTS_MAX]; /* sizes of the arenas that start */
    uint32_t start_count;
    uint64_t others_device; /* of the other process; HOST_OTHERS_OURS */

    /* Of a process that measures. */
    const char *child; /* name of the part, or NULL */
    uint64_t process;  /* from 0 */
    uint64_t until_ns; /* by clock_now_ns(): begins nothing after it */
};

/* False if there was something wrong, which is said. */
bool host_options_parse(int argc, char **argv, struct host_options *out);
void host_options_help(void);

struct host_part {
    const char *name;
    /* NULL: the script does it. */
    void (*measure)(const struct host_options *options);
    unsigned share;     /* of the time */
    unsigned streams;   /* that it needs; more where it has workers */
    bool is_once;       /* counts bytes: more processes show no more */
    bool is_always_run; /* whatever parts were named */
};

extern const struct host_part host_parts[];
extern const unsigned host_part_count;
const struct host_part *host_part_find(const char *name, size_t length);

void host_about(const struct host_options *options);
void host_staging(const struct host_options *options);
void host_start(const struct host_options *options);
void host_bandwidth(const struct host_options *options);
void host_pipeline(const struct host_options *options);
void host_waste(const struct host_options *options);

/* Whether there is no time for another measurement. */
bool host_is_over(const struct host_options *options);
unsigned host_worker_count(const struct host_options *options);

/* Runs every part in processes of their own, until the budget is spent. The
 * program's exit status. */
int host_run(const struct host_options *options, int argc, char **argv);

#endif
