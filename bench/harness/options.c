/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every option is one row of a table: its name and the function that reads its
 * value. Lists are separated by commas.
 */
#define _GNU_SOURCE
#include "bench/harness/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/base/device.h"

#define ITEM_BYTES 64

/* Which of the powers of two are run when --threads is not given. */
#define DEFAULT_THREADS_MAX 16U

__attribute__((format(printf, 1, 2))) static int complain(const char *format,
                                                          ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("bench: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    return -1;
}

/* The next item of a list, and false when there is none left. One that is too
 * long is cut, and so is not found by name. */
static bool next_item(const char **list, char *item)
{
    if (!**list)
        return false;
    size_t length = strcspn(*list, ",");
    (void)snprintf(item, ITEM_BYTES, "%.*s", (int)length, *list);
    *list += length + ((*list)[length] == ',');
    return true;
}

static int parse_number(const char *option, const char *text, uint64_t least,
                        uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno && *out >= least &&
        *out <= most)
        return 0;
    return complain("--%s=%s: accepted values are %llu to %llu", option, text,
                    (unsigned long long)least, (unsigned long long)most);
}

static int parse_number32(const char *option, const char *text, uint32_t most,
                          uint32_t *out)
{
    uint64_t value;
    int result = parse_number(option, text, 1, most, &value);
    if (result == 0)
        *out = (uint32_t)value;
    return result;
}

static int check_count(const char *option, uint32_t count)
{
    if (count == 0)
        return complain("--%s= names nothing", option);
    if (count == OPTIONS_LIST_MAX)
        return complain("--%s: more than %u values", option,
                        OPTIONS_LIST_MAX - 1);
    return 0;
}

static int refuse_name(const char *kind, const char *name)
{
    (void)fprintf(stderr, "bench: no %s is called \"%s\"; there are:", kind,
                  name);
    if (strcmp(kind, "workload") == 0)
        for (size_t i = 0; workloads[i]; i++)
            (void)fprintf(stderr, " %s", workloads[i]->name);
    else
        for (size_t i = 0; workload_subjects[i]; i++)
            (void)fprintf(stderr, " %s", workload_subjects[i]->name);
    (void)fputc('\n', stderr);
    return -1;
}

static int parse_workload(const char *list, struct options *out)
{
    char item[ITEM_BYTES];
    uint32_t count = 0;
    while (count < OPTIONS_LIST_MAX && next_item(&list, item)) {
        out->workloads[count] = workload_named(item);
        if (!out->workloads[count++])
            return refuse_name("workload", item);
    }
    out->workload_count = count;
    return check_count("workload", count);
}

static int parse_subject(const char *list, struct options *out)
{
    char item[ITEM_BYTES];
    uint32_t count = 0;
    while (count < OPTIONS_LIST_MAX && next_item(&list, item)) {
        out->subjects[count] =
            subject_named(workload_subjects, item, strlen(item));
        if (!out->subjects[count++])
            return refuse_name("subject", item);
    }
    out->subject_count = count;
    out->names_subjects = true;
    return check_count("subject", count);
}

static int parse_threads(const char *list, struct options *out)
{
    char item[ITEM_BYTES];
    uint32_t count = 0;
    while (count < OPTIONS_LIST_MAX && next_item(&list, item))
        if (parse_number32("threads", item, BENCH_THREADS_MAX,
                           &out->threads[count++]) != 0)
            return -1;
    out->threads_count = count;
    return check_count("threads", count);
}

static int parse_size(const char *list, struct options *out)
{
    char item[ITEM_BYTES];
    uint32_t count = 0;
    while (count < OPTIONS_LIST_MAX && next_item(&list, item))
        if (parse_number("size", item, 1, UINT64_C(1) << 20,
                         &out->sizes_bytes[count++]) != 0)
            return -1;
    out->size_count = count;
    return check_count("size", count);
}

static int parse_repeats(const char *text, struct options *out)
{
    return parse_number32("repeats", text, 100, &out->repeats);
}

static int parse_budget(const char *text, struct options *out)
{
    return parse_number32("budget", text, 86400, &out->budget_s);
}

static int parse_seed(const char *text, struct options *out)
{
    return parse_number("seed", text, 0, UINT64_MAX, &out->seed);
}

static int parse_lag(const char *text, struct options *out)
{
    struct lag_plans plans = {.count = 0};
    if (!lag_plans_parse(text, &plans) || plans.count != 1)
        return complain("--lag=%s: accepted is one of %s", text, lag_accepted);
    out->lag = plans.plans[0];
    return 0;
}

static int parse_cell_us(const char *text, struct options *out)
{
    return parse_number("cell-us", text, CELL_US_MIN, CELL_US_MAX,
                        &out->cell_us);
}

static int parse_cells(const char *text, struct options *out)
{
    out->cells = text;
    return 0;
}

static int parse_deadline(const char *text, struct options *out)
{
    return parse_number("deadline-ns", text, 0, UINT64_MAX, &out->deadline_ns);
}

static int parse_json(const char *text, struct options *out)
{
    out->json_path = text;
    return *text ? 0 : complain("--json= names no file");
}

static int parse_driver(const char *text, struct options *out)
{
    out->driver = text;
    return *text ? 0 : complain("--driver= names no driver");
}

static int parse_commit(const char *text, struct options *out)
{
    out->commit = text;
    return *text ? 0 : complain("--commit= names nothing");
}

static int parse_child(const char *text, struct options *out)
{
    out->child = subject_named(workload_subjects, text, strlen(text));
    return out->child ? 0 : refuse_name("subject", text);
}

static const struct {
    const char *name;
    int (*parse)(const char *value, struct options *out);
} table[] = {
    {"workload", parse_workload}, {"subject", parse_subject},
    {"threads", parse_threads},   {"size", parse_size},
    {"json", parse_json},         {"repeats", parse_repeats},
    {"budget", parse_budget},     {"driver", parse_driver},
    {"seed", parse_seed},         {"commit", parse_commit},
    {"cell-us", parse_cell_us},   {"child", parse_child},
    {"cells", parse_cells},       {"deadline-ns", parse_deadline},
    {"lag", parse_lag},
};

static int parse_one(const char *argument, struct options *out)
{
    out->is_list |= strcmp(argument, "--list") == 0;
    out->is_help |= strcmp(argument, "--help") == 0;
    if (strcmp(argument, "--list") == 0 || strcmp(argument, "--help") == 0)
        return 0;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        size_t length = strlen(table[i].name);
        if (strncmp(argument, "--", 2) == 0 &&
            strncmp(argument + 2, table[i].name, length) == 0 &&
            argument[2 + length] == '=')
            return table[i].parse(argument + 3 + length, out);
    }
    return complain("%s is not accepted; --help says what is", argument);
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
    *out = (struct options){.repeats = 5,
                            .budget_s = 480,
                            .cell_us = CELL_US_DEFAULT,
                            .seed = 1,
                            .lag = lag_idle};
    for (int i = 1; i < argc; i++)
        if (parse_one(argv[i], out) != 0)
            return -1;
    default_names(out);
    default_numbers(out);
    return 0;
}
