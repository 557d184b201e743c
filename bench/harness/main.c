/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The benchmarks: every workload against every subject, with the same harness.
 * --help says how it measures.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/command_line.h"
#include "bench/base/machine.h"
#include "bench/base/spawn.h"
#include "bench/harness/child.h"
#include "bench/harness/matrix.h"
#include "bench/harness/options.h"
#include "bench/harness/plan.h"
#include "bench/harness/report.h"

enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,  /* a process or a measurement */
    EXIT_USAGE = 2,   /* unknown argument */
    EXIT_REFUSED = 3, /* a subject that was named cannot run here */
    EXIT_INTERRUPTED = 4,
};

/* Behind the name of the results, for each measurement as it comes. */
#define RAW_SUFFIX ".raw.jsonl"

/* Where results go. */
struct sink {
    FILE *file;
    FILE *raw; /* NULL: nowhere, since the results go to standard output */
    struct machine machine;
};

static bool sink_open(struct sink *sink, const struct options *options)
{
    *sink = (struct sink){.file = stdout};
    if (options->json_path) {
        sink->file = command_line_create("bench", options->json_path, "");
        if (sink->file)
            sink->raw =
                command_line_create("bench", options->json_path, RAW_SUFFIX);
        if (!sink->raw)
            return false;
    }
    machine_describe(options->commit, &sink->machine);
    return true;
}

static void sink_close(struct sink *sink)
{
    if (sink->file && sink->file != stdout)
        (void)fclose(sink->file);
    if (sink->raw)
        (void)fclose(sink->raw);
}

static void note(void *context, const struct matrix *matrix,
                 uint32_t subject_index, uint32_t cell_index)
{
    const struct sink *sink = context;
    if (sink->raw)
        report_write_last(sink->raw, matrix, &sink->machine, subject_index,
                          cell_index);
}

/* Also what there is when somebody wants us to end. */
static int write_all(const struct sink *sink, const struct matrix *matrix)
{
    uint32_t measured = report_write(sink->file, matrix, &sink->machine);
    if (measured == 0)
        (void)fputs("bench: nothing was measured: none of these subjects runs "
                    "any of these cells here\n",
                    stderr);
    if (fflush(sink->file) != 0 || ferror(sink->file)) {
        perror("bench: the results");
        return EXIT_FAILED;
    }
    if (matrix->is_interrupted)
        return EXIT_INTERRUPTED;
    if (matrix->has_refused)
        return EXIT_REFUSED;
    return matrix->has_failed || measured == 0 ? EXIT_FAILED : EXIT_OK;
}

static int measure(const struct options *options, int argc, char **argv)
{
    struct plan plan = {0};
    struct matrix matrix = {0};
    struct sink sink;
    int code = EXIT_FAILED;
    if (sink_open(&sink, options) && plan_init(&plan, options) &&
        matrix_init(&matrix, options, &plan)) {
        matrix.note = note;
        matrix.note_context = &sink;
        spawn_catch_signals();
        matrix_run(&matrix, argc, argv);
        code = write_all(&sink, &matrix);
    }
    matrix_fini(&matrix);
    plan_fini(&plan);
    sink_close(&sink);
    return code;
}

int main(int argc, char **argv)
{
    struct options options;
    if (options_parse(argc, argv, &options) != 0)
        return EXIT_USAGE;
    if (options.is_help) {
        options_print_help();
        return EXIT_OK;
    }
    if (options.is_list) {
        options_print_list();
        return EXIT_OK;
    }
    if (!command_line_use_driver(options.driver))
        return EXIT_FAILED;
    if (options.child)
        return child_run(&options);
    return measure(&options, argc, argv);
}
