/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The demo: an inference server in one process. Worker threads, each with a
 * stream of its own, stage a request's input in through pinned memory next to
 * the device, run a model's tensors through device memory and copy the response
 * out the same way, where it is checked byte for byte. The same requests are
 * served with Moiety, with the pool that anybody would write first, and with
 * the driver's own allocation, by turns; at the end they are compared.
 *
 * It asks for the stand-in by default, so that it runs on any machine; no other
 * program gets the stand-in without asking for it.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>

#include "bench/base/command_line.h"
#include "bench/server/comparison.h"
#include "bench/server/introduction.h"
#include "bench/server/options.h"
#include "bench/server/report.h"
#include "bench/server/request.h"

/* The costs of a real driver are what makes the comparison one; whoever asked
 * for other ones gets those. */
static int choose_driver(const char *name)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    return setenv("MOIETY_DRIVER", name, 1) != 0 ||
           setenv("MOIETY_STANDIN_COST", "h200", 0) != 0;
}

static void announce(const struct server_options *options)
{
    printf(
        "\nserving     %u workers with a stream each; a request has an input "
        "and %u to %u\n            tensors of %zu KiB to %zu MiB; seed "
        "%llu\n",
        options->thread_count, SERVER_TENSORS_MIN, SERVER_TENSORS_MAX,
        SERVER_TENSOR_BYTES_MIN >> 10, SERVER_TENSOR_BYTES_MAX >> 20,
        (unsigned long long)options->seed);
    for (unsigned i = 0; i < options->subject_count; i++)
        printf("            %-12s %s\n", options->subjects[i]->name,
               options->subjects[i]->description);
}

static bool write_json(FILE *file, const struct server_options *options,
                       const moiety_caps *caps,
                       const struct server_outcome *outcome)
{
    server_report_write(file, options, caps, outcome);
    if (fflush(file) == 0 && !ferror(file))
        return true;
    perror("server: the results");
    return false;
}

static enum server_exit serve(const struct server_options *options,
                              const moiety_caps *caps, FILE *json)
{
    /* Too large for a stack. */
    static struct server_outcome outcome;
    announce(options);
    bool is_well = server_compare(options, caps, &outcome);
    if (is_well) {
        server_report_print(options, caps, &outcome);
        is_well = !json || write_json(json, options, caps, &outcome);
    }
    is_well = server_report_verdict(options, &outcome) && is_well;
    return is_well ? SERVER_OK : SERVER_WRONG;
}

static enum server_exit run(const struct server_options *options, FILE *json)
{
    moiety_caps caps;
    enum server_exit code = server_introduce(options->device, &caps);
    (void)fflush(stdout);
    bool has_work = options->seconds > 0 || options->request_count > 0;
    return code == SERVER_OK && has_work ? serve(options, &caps, json) : code;
}

int main(int argc, char **argv)
{
    struct server_options options;
    FILE *json = NULL;
    if (server_options_parse(argc, argv, &options) != 0)
        return SERVER_USAGE;
    if (options.is_help) {
        server_options_print_usage();
        return SERVER_OK;
    }
    if (choose_driver(options.driver) != 0)
        return SERVER_WRONG;
    /* Opened first: when all is done is too late to hear of a bad name. */
    if (options.json_path &&
        !(json = command_line_create("server", options.json_path, "")))
        return SERVER_WRONG;
    enum server_exit code = run(&options, json);
    if (json)
        (void)fclose(json);
    return (int)code;
}
