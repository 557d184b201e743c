/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Prints the NUMA nodes, the GPUs, and which node's memory is used for which
 * GPU.
 *
 *     bazel run //numa:topo -- --driver=standin --json
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "numa/topology/report.h"
#include "pool/base/failure.h"

static const char usage[] =
    "usage: topo [--driver=D] [--json]\n"
    "  --driver=D  auto (default): this machine's CUDA driver, if it has one;\n"
    "              cuda: the same, never a stand-in; standin; or a library's\n"
    "              path with a / in it\n"
    "  --json      print one JSON object\n"
    "environment: HWLOC_XMLFILE and HWLOC_SYNTHETIC name another machine's\n"
    "             topology, for a look at what would be chosen there\n"
    "exit status: 0 all well; 1 a call failed; 2 bad argument; 3 the driver\n"
    "             named with --driver cannot be opened (nodes are printed)\n";

struct options {
    const char *driver; /* NULL: none was named */
    bool is_json, is_help;
};

static bool topo_parse(int argc, char **argv, struct options *out)
{
    static const struct option known[] = {
        {"driver", required_argument, NULL, 'd'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int letter = 0;
    /* No thread has been started: nobody else parses. */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    while ((letter = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (letter == 'd' && *optarg)
            out->driver = optarg;
        else if (letter == 'j')
            out->is_json = true;
        else if (letter == 'h')
            out->is_help = true;
        else
            return false;
    }
    return optind == argc;
}

static int print(const struct options *options,
                 const struct moietyi_topo_report *report)
{
    if (options->is_json)
        moietyi_topo_json(stdout, report);
    else
        moietyi_topo_text(stdout, report);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("topo: stdout");
        return 1;
    }
    return options->driver && !report->has_driver ? 3 : 0;
}

int main(int argc, char **argv)
{
    struct options options = {NULL, false, false};
    struct moietyi_topo_report report;
    if (!topo_parse(argc, argv, &options)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    if (options.is_help)
        return fputs(usage, stdout) < 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no thread has been started. */
    if (options.driver && setenv("MOIETY_DRIVER", options.driver, 1) != 0) {
        perror("topo: MOIETY_DRIVER");
        return 1;
    }
    int result = 1;
    if (moietyi_topo_report_make(&report) == MOIETY_OK)
        result = print(&options, &report);
    else
        (void)fprintf(stderr, "topo: %s\n", moietyi_failure_message());
    moietyi_topo_report_free(&report);
    return result;
}
