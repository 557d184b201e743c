/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/harness/child.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "bench/base/clock.h"
#include "bench/subjects/lagging.h"
#include "pool/driver/driver_table.h"

#define CELL_FORMAT "cell %u %d %d %u %u %llu %llu %lf %lf %lf %lf %lf %lf %lf"

/* Of a cell's share of the time, what is measured; the rest is for setting up,
 * and for repetitions that are repeated. */
#define MEASURE_PERCENT 50U
/* A cell may take this part of the time of all that are left, or PATIENCE_NS,
 * whichever is more, before it is killed: setting up takes some of them a
 * hundred times as long as others. */
#define OVERRUN_PART 4U

static void print_driver(const struct subject *subject)
{
    const struct moietyi_driver *driver = moietyi_driver_opened();
    if (!subject->needs_driver || !driver) {
        puts("runs 0 0 none");
        return;
    }
    const char *cost = getenv("MOIETY_STANDIN_COST");
    const char *name = strrchr(driver->library_path, '/');
    printf("runs %d %d %s, CUDA %d.%d\n", driver->is_standin,
           driver->is_standin && cost && *cost && strcmp(cost, "none") != 0,
           name ? name + 1 : driver->library_path, driver->version / 1000,
           driver->version % 1000 / 10);
}

static void print_cell(uint32_t index, const struct measurement *m)
{
    printf("cell %" PRIu32 " %d %d %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64
           " %.6f %.6f %.6f %.6f %.6f %.6f %.6f\n",
           index, m->is_clean, m->is_pinned, m->kept, m->discarded, m->ops,
           m->cell_us, m->op_median, m->op_p99, m->op_p999, m->op_mean,
           m->call_p99, m->call_p999, m->cache_hit_rate);
}

static void run_cell(const struct plan *plan, const struct options *options,
                     const struct subject *subject, uint32_t index,
                     const struct pace *pace)
{
    struct measurement measurement;
    const char *why = cell_measure(&plan->cells[index], subject, options->seed,
                                   pace, &measurement);
    if (why)
        printf("fails %" PRIu32 " %s\n", index, why);
    else
        print_cell(index, &measurement);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The first of `count` cells that are to come. */
static void run_next(const struct plan *plan, const struct options *options,
                     const struct subject *subject, uint32_t index,
                     uint32_t count)
{
    uint64_t now_ns = clock_now_ns();
    uint64_t left_ns = options->deadline_ns - now_ns;
    uint64_t share_ns = left_ns / count;
    uint64_t measure_us = share_ns / 1000 * MEASURE_PERCENT / 100;
    uint64_t most_ns =
        larger(larger(share_ns, left_ns / OVERRUN_PART), CHILD_PATIENCE_NS);
    struct pace pace = {
        .cell_us = smaller(larger(measure_us, CELL_US_MIN), options->cell_us),
        .deadline_ns = now_ns + share_ns,
    };
    printf("begin %" PRIu32 " %" PRIu64 "\n", index, now_ns + most_ns);
    (void)fflush(stdout);
    run_cell(plan, options, subject, index, &pace);
    (void)fflush(stdout);
}

static void run_plan(const struct plan *plan, const struct options *options,
                     const struct subject *subject)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->cell_count; i++)
        count += options->cells[i] == '1';
    for (uint32_t i = 0; i < plan->cell_count; i++) {
        if (options->cells[i] != '1')
            continue;
        if (clock_now_ns() >= options->deadline_ns)
            break;
        run_next(plan, options, subject, i, count--);
    }
}

/* NULL, or why it cannot run here. */
static const char *start(const struct subject *subject, const struct plan *plan,
                         const struct lag_plan *lag)
{
    struct subject_setup setup = {.thread_count = plan->threads_max,
                                  .stream_count = plan->stream_count};
    if (!lag_is_idle(lag) && (!subject->has_streams || !subject->needs_driver))
        return "it keeps no order of streams, so --lag has no part in it";
    return subject->start(&setup);
}

int child_run(const struct options *options)
{
    struct plan plan;
    /* Nobody reads what we print once our parent is gone. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!plan_init(&plan, options))
        return 1;
    if (!options->cells || strlen(options->cells) != plan.cell_count)
        return 1;
    const struct subject *subject =
        subject_lagging(options->child, &options->lag);
    const char *why = start(subject, &plan, &options->lag);
    if (why) {
        printf("refuses %s\n", why);
    } else {
        print_driver(options->child);
        (void)fflush(stdout);
        run_plan(&plan, options, subject);
        subject->stop();
    }
    plan_fini(&plan);
    return 0;
}

static bool read_cell(const char *line, struct child_line *out)
{
    struct measurement *m = &out->measurement;
    unsigned long long ops;
    unsigned long long cell_us;
    int is_clean;
    int is_pinned;
    if (sscanf(line, CELL_FORMAT, &out->cell_index, &is_clean, &is_pinned,
               &m->kept, &m->discarded, &ops, &cell_us, &m->op_median,
               &m->op_p99, &m->op_p999, &m->op_mean, &m->call_p99,
               &m->call_p999, &m->cache_hit_rate) != 14)
        return false;
    m->ops = ops;
    m->cell_us = cell_us;
    m->is_clean = is_clean;
    m->is_pinned = is_pinned;
    return true;
}

/* The rest of the line without its end. */
static void keep_text(struct child_line *out, const char *text)
{
    (void)snprintf(out->text, sizeof(out->text), "%.*s",
                   (int)strcspn(text, "\n"), text);
}

void child_read_line(const char *line, struct child_line *out)
{
    unsigned long long deadline_ns;
    int is_standin;
    int is_simulated;
    int text = 0;
    *out = (struct child_line){.verb = CHILD_NONSENSE};
    if (read_cell(line, out)) {
        out->verb = CHILD_CELL;
    } else if (sscanf(line, "begin %u %llu", &out->cell_index, &deadline_ns) ==
               2) {
        out->verb = CHILD_BEGIN;
        out->deadline_ns = deadline_ns;
    } else if (sscanf(line, "runs %d %d %n", &is_standin, &is_simulated,
                      &text) == 2 &&
               text) {
        out->verb = CHILD_RUNS;
        out->is_standin = is_standin;
        out->is_simulated = is_simulated;
    } else if (sscanf(line, "fails %u %n", &out->cell_index, &text) == 1 &&
               text) {
        out->verb = CHILD_FAILS;
    } else if (strncmp(line, "refuses ", 8) == 0) {
        out->verb = CHILD_REFUSES;
        text = 8;
    }
    keep_text(out, line + text);
}
