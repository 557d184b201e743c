/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stddef.h>
#include <stdio.h>

#include "bench/base/command_line.h"
#include "bench/host/host.h"

static const char help[] =
    "usage: host [--part=NAME,...] [--python=P [--peers=FILE]] [--driver=D]\n"
    "            [--repeats=N] [--budget=SECONDS] [--cell-ms=MS]\n"
    "            [--block-mib=MIB] [--workers=N] [--start-mib=MIB,...]\n"
    "            [--others-device=N] [--commit=TEXT]\n"
    "  --part       staging, bandwidth, pipeline, start, waste, peers "
    "(default:\n"
    "               all; peers only with --python)\n"
    "  --python     interpreter that has PyTorch or CuPy: measures their "
    "pinned\n"
    "               memory in the same run\n"
    "  --peers      the script that does it (default: "
    "bench/host/host_peers.py)\n"
    "  --driver     auto, cuda, standin or a path with a / in it (default: "
    "what\n"
    "               MOIETY_DRIVER says)\n"
    "  --repeats    processes for each part, 1 to 100 (default 5)\n"
    "  --budget     seconds for all, which are kept (default 300)\n"
    "  --cell-ms    that a measurement goes on, 1 to 60000 (default 200)\n"
    "  --block-mib  of bandwidth and pipeline, 1 to 1024 (default 64)\n"
    "  --workers    of the pipeline, 1 to 64 (default: one for each "
    "processor,\n"
    "               16 at most)\n"
    "  --start-mib  sizes of the arenas that start, 8 at most (default\n"
    "               1024,4096,16384)\n"
    "  --others-device  that the other process uses while arenas start, as\n"
    "               CUDA_VISIBLE_DEVICES has it (default: ours)\n"
    "  --commit     what was built (default: what git says)\n"
    "\n"
    "Measures host arenas: getting and giving back a staging buffer; how long\n"
    "they take to have their memory; copies through them; a pipeline of fills\n"
    "and copies; and what they reserve. bench/host/*.c says how, part by "
    "part.\n"
    "Prints a JSON object for each measurement as it comes; "
    "bench/tables/host_table.py\n"
    "makes tables of them. Each has \"skipped\" and \"error\": null, or why "
    "there\n"
    "is no number.\n"
    "\n"
    "exit status: 0 all well; 1 something failed; 2 bad argument;\n"
    "4 interrupted\n";

void host_options_help(void)
{
    (void)fputs(help, stdout);
}

static bool take_part(const char *name, size_t length, void *into)
{
    uint32_t *parts = into;
    const struct host_part *part = host_part_find(name, length);
    if (!part || part->is_always_run) {
        (void)fprintf(stderr, "host: no part is called \"%.*s\"\n", (int)length,
                      name);
        return false;
    }
    *parts |= UINT32_C(1) << (part - host_parts);
    return true;
}

static bool read_parts(const char *names, void *into)
{
    uint32_t *parts = into;
    *parts = 0;
    return command_line_each(names, take_part, parts);
}

bool host_options_parse(int argc, char **argv, struct host_options *out)
{
    const struct command_option options[] = {
        {"part", .read = read_parts, .into = &out->parts},
        {"python", .text = &out->python},
        {"peers", .text = &out->peers},
        {"driver", .text = &out->driver},
        {"repeats", 1, 100, .number = &out->repeats},
        {"budget", 1, 86400, .number = &out->budget_s},
        {"cell-ms", 1, 60000, .number = &out->cell_ms},
        {"block-mib", 1, 1024, .number = &out->block_mib},
        {"workers", 1, HOST_WORKERS_MAX, .number = &out->workers},
        {"start-mib", 2, UINT64_C(1) << 20, .list = out->start_mib,
         .list_count = &out->start_count, .list_max = HOST_STARTS_MAX,
         .refusal = ": accepted are up to 8 numbers from 2 to 1048576"},
        {"others-device", 0, 255, .number = &out->others_device},
        {"commit", .text = &out->commit},
        {"help", .is_given = &out->is_help},
        /* Of a process that measures. */
        {"child", .text = &out->child},
        {"process", 0, UINT64_MAX, .number = &out->process},
        {"until", 0, UINT64_MAX, .number = &out->until_ns},
        {.name = NULL},
    };
    const struct command_line line = {"host", ": accepted values are ", options,
                                      false};
    *out = (struct host_options){
        .peers = "bench/host/host_peers.py",
        .parts = UINT32_MAX,
        .repeats = 5,
        .budget_s = 300,
        .cell_ms = 200,
        .block_mib = 64,
        .start_mib = {1024, 4096, 16384},
        .start_count = 3,
        .others_device = HOST_OTHERS_OURS,
    };
    return command_line_read(&line, argc, argv) >= 0;
}
