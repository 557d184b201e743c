/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/child.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/driver/driver_table.h"

#define CELL_FORMAT "cell %u %d %d %u %u %llu %lf %lf %lf %lf %lf %lf"

static void print_driver(const struct subject *subject)
{
    const struct binadei_driver *driver = binadei_driver_opened();
    if (!subject->has_driver || !driver) {
        puts("runs 0 0 none");
        return;
    }
    const char *cost = getenv("BINADE_STANDIN_COST");
    const char *name = strrchr(driver->library_path, '/');
    printf("runs %d %d %s, CUDA %d.%d\n", driver->is_standin,
           driver->is_standin && cost && *cost && strcmp(cost, "none") != 0,
           name ? name + 1 : driver->library_path, driver->version / 1000,
           driver->version % 1000 / 10);
}

static void print_cell(uint32_t index, const struct measurement *m)
{
    printf("cell %" PRIu32 " %d %d %" PRIu32 " %" PRIu32 " %" PRIu64
           " %.6f %.6f %.6f %.6f %.6f %.6f\n",
           index, m->is_clean, m->is_pinned, m->kept, m->discarded, m->ops,
           m->op_median, m->op_p99, m->op_p999, m->op_mean, m->call_p99,
           m->call_p999);
}

static void run_plan(const struct plan *plan, const struct options *options)
{
    for (uint32_t i = 0; i < plan->cell_count; i++) {
        struct measurement measurement;
        if (!plan_applies(&plan->cells[i], options->child))
            continue;
        const char *why =
            cell_measure(&plan->cells[i], options->child, options->seed,
                         options->cell_us, &measurement);
        if (why)
            printf("fails %" PRIu32 " %s\n", i, why);
        else
            print_cell(i, &measurement);
        (void)fflush(stdout);
    }
}

int child_run(const struct options *options)
{
    struct plan plan;
    if (!plan_init(&plan, options))
        return 1;
    const char *why = options->child->start(plan.threads_max);
    if (why) {
        printf("refuses %s\n", why);
    } else {
        print_driver(options->child);
        run_plan(&plan, options);
        options->child->stop();
    }
    plan_fini(&plan);
    return 0;
}

static bool read_cell(const char *line, struct child_line *out)
{
    struct measurement *m = &out->measurement;
    unsigned long long ops;
    int is_clean;
    int is_pinned;
    if (sscanf(line, CELL_FORMAT, &out->cell_index, &is_clean, &is_pinned,
               &m->kept, &m->discarded, &ops, &m->op_median, &m->op_p99,
               &m->op_p999, &m->op_mean, &m->call_p99, &m->call_p999) != 12)
        return false;
    m->ops = ops;
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
    int is_standin;
    int is_simulated;
    int text = 0;
    *out = (struct child_line){.verb = CHILD_NONSENSE};
    if (read_cell(line, out)) {
        out->verb = CHILD_CELL;
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
