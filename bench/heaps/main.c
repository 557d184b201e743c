/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Replays traces on the model of heaps by several rules: --help says how.
 */
#include <stdio.h>
#include <string.h>

#include "bench/base/command_line.h"
#include "bench/base/json.h"
#include "bench/base/machine.h"
#include "bench/heaps/rules.h"
#include "bench/heaps/subject.h"
#include "bench/lag/plan.h"
#include "bench/replay/circumstances.h"
#include "bench/replay/json.h"
#include "bench/replay/run.h"
#include "bench/replay/trace/source.h"
#include "bench/subjects/lagging.h"

#define RULES_MAX 64U

static const char help[] =
    "usage: heaps [OPTION]... TRACE...\n"
    "Replays traces on a serial model of heaps and prints a JSON object for "
    "each\n"
    "trace, lag and rules: the most reserved and the most live bytes, and the\n"
    "handles of memory that moved. Its calls are not timed.\n"
    "  --rules=R[,R]  which rules (default: all that --list names)\n"
    "  --lag=L[,L]    what the device does meanwhile, as of replay (default: "
    "idle)\n"
    "  --driver=D     auto, cuda, standin or a path with a / in it (default:\n"
    "                 what MOIETY_DRIVER says)\n"
    "  --json=FILE    write there instead of to standard output\n"
    "  --commit=ID    of what is measured (default: what git says)\n"
    "  --list         names the rules\n"
    "Traces are plain text (docs/dev/trace-format.md), not compressed.\n"
    "exit status: 0 all well; 1 a trace could not be replayed; 2 bad "
    "argument;\n"
    "             3 a trace is wrong\n";

enum exit_code { EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_TRACE };

struct options {
    const struct heap_named_rules *rules[RULES_MAX];
    uint32_t rules_count;
    struct lag_plans lags;
    const char *driver;
    const char *json_path;
    const char *commit;
    bool is_list;
    bool is_help;
};

struct job {
    const struct options *options;
    const char *path;
    struct replay_source source;
    const struct heap_named_rules *rules;
    const struct lag_plan *lag;
    FILE *rows;
};

static bool take_rules(const char *name, size_t length, void *into)
{
    struct options *options = into;
    const struct heap_named_rules *one = heap_rules_table;
    while (one->name && (strlen(one->name) != length ||
                         strncmp(one->name, name, length) != 0))
        one++;
    if (!one->name || options->rules_count == RULES_MAX)
        return false;
    options->rules[options->rules_count++] = one;
    return true;
}

static bool read_rules(const char *list, void *into)
{
    return command_line_each(list, take_rules, into);
}

static bool read_lags(const char *list, void *into)
{
    return lag_plans_parse(list, into);
}

static void set_defaults(struct options *options)
{
    if (!options->rules_count)
        for (const struct heap_named_rules *one = heap_rules_table; one->name;
             one++)
            options->rules[options->rules_count++] = one;
    if (!options->lags.count)
        options->lags.plans[options->lags.count++] = lag_idle;
}

static void number(const struct job *job, const char *key, uint64_t value)
{
    (void)fprintf(job->rows, ",\"%s\":", key);
    json_number(job->rows, value);
}

static void write_footprint(const struct job *job,
                            const struct replay_footprint *footprint)
{
    const struct heap_figures *figures = heap_subject_figures();
    number(job, "peak_live_bytes", footprint->peak_live_bytes);
    number(job, "peak_reserved_bytes", footprint->peak.memory.reserved_bytes);
    number(job, "moves", figures->move_count);
    number(job, "growths", figures->growth_count);
    number(job, "events", figures->event_count);
    if (job->lag->is_held)
        number(job, "releases", subject_lag_releases());
}

static void write_row(const struct job *job, const char *why,
                      const struct replay_footprint *footprint)
{
    const char *slash = strrchr(job->path, '/');
    (void)fputs("{\"kind\":\"heaps\",\"trace\":", job->rows);
    replay_json_text(job->rows, slash ? slash + 1 : job->path);
    (void)fprintf(job->rows, ",\"rules\":\"%s\",\"lag\":\"%s\"",
                  job->rules->name, job->lag->text);
    if (why) {
        (void)fputs(",\"refused\":", job->rows);
        replay_json_text(job->rows, why);
    } else {
        write_footprint(job, footprint);
    }
    replay_circumstances_write(job->rows, heap_subject(&job->rules->rules),
                               job->options->commit);
    (void)fputs("}\n", job->rows);
    (void)fflush(job->rows);
}

static const char *measure(struct job *job, struct replay_footprint *out)
{
    const struct subject *subject =
        subject_lagging(heap_subject(&job->rules->rules), job->lag);
    const struct subject_setup setup = {
        .thread_count = replay_turn_threads(&job->source),
        .stream_count = job->source.about.stream_count,
        .has_any = job->source.about.has_any,
    };
    const char *why = subject->start(&setup);
    if (why)
        return why;
    why = replay_run_footprint(subject, &job->source, out);
    subject->stop();
    return why;
}

static enum exit_code replay_by_all(struct job *job)
{
    enum exit_code code = EXIT_OK;
    for (uint32_t l = 0; l < job->options->lags.count; l++)
        for (uint32_t r = 0; r < job->options->rules_count; r++) {
            struct replay_sample none;
            struct replay_footprint footprint = {.samples = &none};
            job->lag = &job->options->lags.plans[l];
            job->rules = job->options->rules[r];
            const char *why = measure(job, &footprint);
            write_row(job, why, &footprint);
            if (why)
                code = EXIT_FAILED;
        }
    return code;
}

static enum exit_code replay_all(const struct options *options, char **paths,
                                 int count, FILE *rows)
{
    static struct job job; /* too large for a stack */
    enum exit_code worst = EXIT_OK;
    for (int i = 0; i < count; i++) {
        job = (struct job){.options = options, .path = paths[i], .rows = rows};
        if (!replay_source_open(&job.source, paths[i], 0)) {
            replay_trace_complain(&job.source.trace, paths[i]);
            return EXIT_TRACE;
        }
        enum exit_code code = replay_by_all(&job);
        if (code > worst)
            worst = code;
        replay_source_close(&job.source);
    }
    return worst;
}

static enum exit_code run(struct options *options, char **paths, int count)
{
    struct machine machine;
    if (!command_line_go_to_user())
        return EXIT_USAGE;
    if (!command_line_use_driver(options->driver))
        return EXIT_FAILED;
    FILE *rows = options->json_path ? fopen(options->json_path, "we") : stdout;
    if (!rows) {
        perror(options->json_path);
        return EXIT_USAGE;
    }
    machine_describe(options->commit, &machine);
    options->commit = machine.commit;
    enum exit_code code = replay_all(options, paths, count, rows);
    bool is_written = !ferror(rows);
    if (options->json_path)
        is_written &= fclose(rows) == 0;
    return is_written ? code : EXIT_FAILED;
}

static enum exit_code list(void)
{
    for (const struct heap_named_rules *one = heap_rules_table; one->name;
         one++)
        printf("%-16s %s\n", one->name, one->description);
    return EXIT_OK;
}

int main(int argc, char **argv)
{
    struct options options = {.rules_count = 0};
    const struct command_option known[] = {
        {"rules", .read = read_rules, .into = &options,
         .refusal = " is not accepted: names of --list"},
        {"lag", .read = read_lags, .into = &options.lags,
         .refusal = " is not accepted: " LAG_ACCEPTED},
        {"driver", .text = &options.driver},
        {"json", .text = &options.json_path},
        {"commit", .text = &options.commit},
        {"list", .is_given = &options.is_list},
        {"help", .is_given = &options.is_help},
        {.name = NULL},
    };
    const struct command_line line = {"heaps", NULL, known, true};
    int first = command_line_read(&line, argc, argv);
    if (first < 0)
        return EXIT_USAGE;
    if (options.is_help)
        return fputs(help, stdout) < 0 ? EXIT_FAILED : EXIT_OK;
    if (options.is_list)
        return (int)list();
    if (first == argc) {
        (void)fputs("heaps: no trace is named; --help says what is accepted\n",
                    stderr);
        return EXIT_USAGE;
    }
    set_defaults(&options);
    return (int)run(&options, argv + first, argc - first);
}
