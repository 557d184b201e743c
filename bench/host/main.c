/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Benchmarks of host arenas. --help says what is printed.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "bench/base/clock.h"
#include "bench/base/command_line.h"
#include "bench/base/device.h"
#include "bench/host/bystand.h"
#include "bench/host/host.h"
#include "bench/host/row.h"

#define WORKERS_BY_ITSELF 16

/* In the order in which they run. */
const struct host_part host_parts[] = {
    {.name = "run",
     .measure = host_about,
     .share = 1,
     .streams = 1,
     .is_once = true,
     .is_always_run = true},
    {.name = "waste",
     .measure = host_waste,
     .share = 2,
     .streams = 1,
     .is_once = true},
    {.name = "staging", .measure = host_staging, .share = 8, .streams = 1},
    {.name = "peers", .share = 12},
    {.name = "bandwidth", .measure = host_bandwidth, .share = 5, .streams = 1},
    {.name = "pipeline", .measure = host_pipeline, .share = 14, .streams = 0},
    {.name = "start", .measure = host_start, .share = 30, .streams = 1},
};
const unsigned host_part_count = sizeof(host_parts) / sizeof(host_parts[0]);

const struct host_part *host_part_find(const char *name, size_t length)
{
    for (unsigned i = 0; i < host_part_count; i++)
        if (strlen(host_parts[i].name) == length &&
            strncmp(host_parts[i].name, name, length) == 0)
            return &host_parts[i];
    return NULL;
}

bool host_is_over(const struct host_options *options)
{
    return clock_now_ns() >= options->until_ns;
}

unsigned host_worker_count(const struct host_options *options)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (options->workers)
        return (unsigned)options->workers;
    if (processors < 1)
        return 1;
    return processors < WORKERS_BY_ITSELF ? (unsigned)processors
                                          : WORKERS_BY_ITSELF;
}

/* A process that measures. What fails has a row. */
static int measure(const struct host_options *options)
{
    const struct host_part *part =
        host_part_find(options->child, strlen(options->child));
    if (strcmp(options->child, "bystand") == 0)
        return bystand_process();
    if (!part || !part->measure)
        return 2;
    /* Nobody reads what we print once our parent is gone. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    host_row_process(options->process);
    const char *why = bench_device_start(
        part->streams ? part->streams : host_worker_count(options));
    if (why) {
        host_row_begin(part->name, NULL);
        host_row_fail(why);
        return 0;
    }
    part->measure(options);
    bench_device_stop();
    return 0;
}

int main(int argc, char **argv)
{
    struct host_options options;
    if (!host_options_parse(argc, argv, &options))
        return 2;
    if (options.is_help) {
        host_options_help();
        return 0;
    }
    if (!command_line_use_driver(options.driver))
        return 1;
    return options.child ? measure(&options) : host_run(&options, argc, argv);
}
