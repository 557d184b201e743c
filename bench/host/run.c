/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The process that measures nothing: it starts those that do, one at a time,
 * shares out the time among them, and passes on what they print.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/clock.h"
#include "bench/base/spawn.h"
#include "bench/host/host.h"
#include "bench/host/row.h"

#define NS_PER_S UINT64_C(1000000000)
/* What is begun in time may go on so long: 16 GiB take a while. */
#define PATIENCE_NS (30 * NS_PER_S)
#define ARGUMENTS_MAX 64

struct run {
    const struct host_options *options;
    int argc;
    char **argv;
    uint64_t deadline_ns;
    uint64_t shares_left; /* of the parts of this round of processes */
    bool has_failed;
};

static void pass_on(const char *line, void *context)
{
    struct run *run = context;
    if (*line != '{') { /* a library that talks */
        (void)fputs(line, stderr);
        return;
    }
    run->has_failed |= host_row_is_failure(line);
    (void)fputs(line, stdout);
    (void)fflush(stdout);
}

static void fail(struct run *run, const struct host_part *part,
                 uint64_t process, const char *why)
{
    run->has_failed = true;
    host_row_process(process);
    host_row_begin(part->name, NULL);
    host_row_fail(why);
}

static void say_how_it_ended(struct run *run, const struct host_part *part,
                             uint64_t process, int result)
{
    char why[96];
    if (result == 0 || result == SPAWN_INTERRUPTED)
        return;
    if (result == SPAWN_ENDED)
        (void)snprintf(why, sizeof(why),
                       "its process was ended by a signal or "
                       "did not start");
    else if (result == SPAWN_OVERRAN)
        (void)snprintf(why, sizeof(why), "%s and was killed",
                       clock_now_ns() >= run->deadline_ns
                           ? "it was not done when the time was over"
                           : "it took too long");
    else
        (void)snprintf(why, sizeof(why), "its process ended with status %d",
                       result);
    fail(run, part, process, why);
}

static void start(struct run *run, const struct host_part *part,
                  uint64_t process, uint64_t until_ns)
{
    char self[] = "/proc/self/exe";
    char child[64];
    char number[64];
    char until[64];
    char cell[64];
    char *argv[ARGUMENTS_MAX + 4] = {self};
    int count = 1;
    (void)snprintf(child, sizeof(child), "--child=%s", part->name);
    (void)snprintf(number, sizeof(number), "--process=%" PRIu64, process);
    (void)snprintf(until, sizeof(until), "--until=%" PRIu64, until_ns);
    if (part->measure) {
        for (; count < run->argc; count++)
            argv[count] = run->argv[count];
        argv[count++] = child;
    } else {
        (void)snprintf(cell, sizeof(cell), "--cell-ms=%" PRIu64,
                       run->options->cell_ms);
        argv[0] = (char *)(uintptr_t)run->options->python;
        argv[count++] = (char *)(uintptr_t)run->options->peers;
        argv[count++] = cell;
    }
    argv[count++] = number;
    argv[count] = until;
    uint64_t patient_ns = until_ns + PATIENCE_NS;
    struct spawn spawn = {
        .argv = argv,
        .take = pass_on,
        .context = run,
        .deadline_ns =
            patient_ns < run->deadline_ns ? patient_ns : run->deadline_ns,
    };
    say_how_it_ended(run, part, process, spawn_run(&spawn));
}

static bool is_wanted(const struct run *run, unsigned part, uint64_t process)
{
    const struct host_options *options = run->options;
    if (!host_parts[part].measure && !options->python)
        return false;
    if (host_parts[part].is_once && process > 0)
        return false;
    return host_parts[part].is_always_run ||
           (options->parts & UINT32_C(1) << part) != 0;
}

/* The parts share the time that is left as if this were the last round: where
 * it is short, everything once is worth more than a part of it five times. */
static void run_part(struct run *run, unsigned index, uint64_t process)
{
    const struct host_part *part = &host_parts[index];
    uint64_t now_ns = clock_now_ns();
    if (now_ns >= run->deadline_ns) {
        host_row_process(process);
        host_row_begin(part->name, NULL);
        host_row_skip("no time was left");
        return;
    }
    start(run, part, process,
          now_ns +
              (run->deadline_ns - now_ns) / run->shares_left * part->share);
}

static uint64_t count_shares(const struct run *run, uint64_t process)
{
    uint64_t shares = 0;
    for (unsigned i = 0; i < host_part_count; i++)
        if (is_wanted(run, i, process))
            shares += host_parts[i].share;
    return shares;
}

/* False: it is of no use to go on. */
static bool run_round(struct run *run, uint64_t process)
{
    run->shares_left = count_shares(run, process);
    for (unsigned i = 0; i < host_part_count; i++) {
        if (spawn_is_interrupted())
            return false;
        if (!is_wanted(run, i, process))
            continue;
        run_part(run, i, process);
        run->shares_left -= host_parts[i].share;
        /* Without a driver there is nothing to measure. */
        if (host_parts[i].is_always_run && run->has_failed)
            return false;
    }
    return true;
}

/* Round by round, so that what is slow for a while is so for all parts. */
static void run_all(struct run *run)
{
    for (uint64_t process = 0; process < run->options->repeats; process++)
        if (!run_round(run, process))
            return;
}

int host_run(const struct host_options *options, int argc, char **argv)
{
    struct run run = {
        .options = options,
        .argc = argc,
        .argv = argv,
        .deadline_ns = clock_now_ns() + options->budget_s * NS_PER_S,
    };
    if (argc > ARGUMENTS_MAX) {
        (void)fputs("host: too many arguments\n", stderr);
        return 2;
    }
    spawn_catch_signals();
    run_all(&run);
    if (spawn_is_interrupted())
        return 4;
    return run.has_failed ? 1 : 0;
}
