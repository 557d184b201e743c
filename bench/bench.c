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

#include "bench/child.h"
#include "bench/matrix.h"
#include "bench/options.h"
#include "bench/plan.h"
#include "bench/report.h"

enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,  /* a process or a measurement */
    EXIT_USAGE = 2,   /* unknown argument */
    EXIT_REFUSED = 3, /* a subject that was named cannot run here */
};

/* Opened before anything is measured: minutes later is too late to hear that
 * there is no such folder. `bazel run` starts us in a folder of its own and
 * says which was the user's. */
static FILE *open_output(const char *path)
{
    const char *folder = getenv("BUILD_WORKING_DIRECTORY");
    char name[PATH_MAX];
    if (!path)
        return stdout;
    if (*path == '/' || !folder)
        (void)snprintf(name, sizeof(name), "%s", path);
    else
        (void)snprintf(name, sizeof(name), "%s/%s", folder, path);
    FILE *file = fopen(name, "we");
    if (!file) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
        const char *why = strerror(errno);
        (void)fprintf(stderr, "bench: --json=%s: %s\n", path, why);
    }
    return file;
}

static int measure_into(FILE *file, const struct options *options,
                        const struct plan *plan, int argc, char **argv)
{
    struct matrix matrix;
    int code = EXIT_FAILED;
    if (matrix_init(&matrix, options, plan)) {
        matrix_run(&matrix, argc, argv);
        uint32_t written = report_write(file, &matrix);
        if (fflush(file) != 0 || ferror(file))
            perror("bench: the results");
        else if (matrix.has_refused)
            code = EXIT_REFUSED;
        else if (!matrix.has_failed && written > 0)
            code = EXIT_OK;
        if (written == 0)
            (void)fputs("bench: nothing was measured: none of these subjects "
                        "runs any of these cells here\n",
                        stderr);
    }
    matrix_fini(&matrix);
    return code;
}

static int measure(const struct options *options, int argc, char **argv)
{
    struct plan plan;
    FILE *file = open_output(options->json_path);
    int code = EXIT_FAILED;
    if (file && plan_init(&plan, options)) {
        code = measure_into(file, options, &plan, argc, argv);
        plan_fini(&plan);
    }
    if (file && file != stdout)
        (void)fclose(file);
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
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    if (options.driver && setenv("BINADE_DRIVER", options.driver, 1) != 0)
        return EXIT_FAILED;
    if (options.child)
        return child_run(&options);
    return measure(&options, argc, argv);
}
