/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every option is one row of a table.
 */
#define _GNU_SOURCE
#include "bench/harness/options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/base/command_line.h"
#include "bench/base/device.h"

/* Which of the powers of two are run when --threads is not given. */
#define DEFAULT_THREADS_MAX 16U
#define BLOCK_BYTES_MAX (UINT64_C(1) << 20)
#define NAMES_MAX (OPTIONS_LIST_MAX - 1)

static bool refuse_name(const char *option, const char *name, size_t length)
{
    if (!length) {
        (void)fprintf(stderr, "bench: --%s= names nothing\n", option);
        return false;
    }
    (void)fprintf(stderr, "bench: no %s is called \"%.*s\"; there are:", option,
                  (int)length, name);
    if (strcmp(option, "workload") == 0)
        for (size_t i = 0; workloads[i]; i++)
            (void)fprintf(stderr, " %s", workloads[i]->name);
    else
        for (size_t i = 0; workload_subjects[i]; i++)
            (void)fprintf(stderr, " %s", workload_subjects[i]->name);
    (void)fputc('\n', stderr);
    return false;
}

static bool has_room(const char *option, uint32_t count)
{
    if (count < NAMES_MAX)
        return true;
    (void)fprintf(stderr, "bench: --%s: more than %u values\n", option,
                  NAMES_MAX);
    return false;
}

static bool take_workload(const char *name, size_t length, void *into)
{
    struct options *out = into;
    const struct workload *workload = workload_named(name, length);
    if (!workload)
        return refuse_name("workload", name, length);
    if (!has_room("workload", out->workload_count))
        return false;
    out->workloads[out->workload_count++] = workload;
    return true;
}

static bool read_workloads(const char *list, void *into)
{
    struct options *out = into;
    out->workload_count = 0;
    return command_line_each(list, take_workload, out);
}

static bool take_subject(const char *name, size_t length, void *into)
{
    struct options *out = into;
    const struct subject *subject =
        subject_named(workload_subjects, name, length);
    if (!subject)
        return refuse_name("subject", name, length);
    if (!has_room("subject", out->subject_count))
        return false;
    out->subjects[out->subject_count++] = subject;
    return true;
}

static bool read_subjects(const char *list, void *into)
{
    struct options *out = into;
    out->subject_count = 0;
    return command_line_each(list, take_subject, out);
}

static bool read_child(const char *name, void *into)
{
    const struct subject **out = into;
    *out = subject_named(workload_subjects, name, strlen(name));
    return *out || refuse_name("subject", name, strlen(name));
}

static bool read_lag(const char *text, void *into)
{
    struct lag_plan *out = into;
    struct lag_plans plans = {.count = 0};
    if (!lag_plans_parse(text, &plans) || plans.count != 1)
        return false;
    *out = plans.plans[0];
    return true;
}

static void default_names(struct options *out)
{
    if (!out->workload_count)
        for (size_t i = 0; workloads[i]; i++)
            if (!workloads[i]->is_extra)
                out->workloads[out->workload_count++] = workloads[i];
    if (!out->subject_count) {
        while (workload_subjects[out->subject_count]) {
            out->subjects[out->subject_count] =
                workload_subjects[out->subject_count];
            out->subject_count++;
        }
    }
}

static void default_numbers(struct options *out)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (!out->size_count)
        out->sizes_bytes[out->size_count++] = 65536;
    if (out->threads_count)
        return;
    for (uint32_t threads = 1; threads <= DEFAULT_THREADS_MAX; threads *= 2)
        if (threads == 1 || (long)threads <= processors)
            out->threads[out->threads_count++] = threads;
}

int options_parse(int argc, char **argv, struct options *out)
{
    const struct command_option options[] = {
        {"workload", .read = read_workloads, .into = out},
        {"subject", .read = read_subjects, .into = out,
         .is_given = &out->names_subjects},
        {"threads", 1, BENCH_THREADS_MAX, .list = out->threads,
         .list_count = &out->threads_count, .list_max = NAMES_MAX},
        {"size", 1, BLOCK_BYTES_MAX, .is_bytes = true, .list = out->sizes_bytes,
         .list_count = &out->size_count, .list_max = NAMES_MAX},
        {"repeats", 1, 100, .number32 = &out->repeats},
        {"budget", 1, 86400, .number32 = &out->budget_s},
        {"cell-us", CELL_US_MIN, CELL_US_MAX, .number = &out->cell_us},
        {"streams", 1, BENCH_THREADS_MAX, .number32 = &out->streams},
        {"seed", 0, UINT64_MAX, .number = &out->seed},
        {"lag", .read = read_lag, .into = &out->lag,
         .refusal = ": accepted is one of " LAG_ACCEPTED},
        {"json", .text = &out->json_path, .refusal = " names no file"},
        {"driver", .text = &out->driver, .refusal = " names no driver"},
        {"commit", .text = &out->commit, .refusal = " names nothing"},
        {"list", .is_given = &out->is_list},
        {"help", .is_given = &out->is_help},
        /* Of our own. */
        {"child", .read = read_child, .into = &out->child},
        {"cells", .text = &out->cells},
        {"deadline-ns", 0, UINT64_MAX, .number = &out->deadline_ns},
        {.name = NULL},
    };
    const struct command_line line = {"bench", ": accepted values are ",
                                      options, false};
    *out = (struct options){.repeats = 5,
                            .budget_s = 480,
                            .cell_us = CELL_US_DEFAULT,
                            .seed = 1,
                            .lag = lag_idle};
    if (command_line_read(&line, argc, argv) < 0)
        return -1;
    default_names(out);
    default_numbers(out);
    return 0;
}
