/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host/host.h"

static const char help[] =
    "usage: host [--part=NAME,...] [--python=P [--peers=FILE]] [--driver=D]\n"
    "            [--repeats=N] [--budget=SECONDS] [--cell-ms=MS]\n"
    "            [--block-mib=MIB] [--workers=N] [--start-mib=MIB,...]\n"
    "            [--commit=TEXT]\n"
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
    "               BINADE_DRIVER says)\n"
    "  --repeats    processes for each part, 1 to 100 (default 5)\n"
    "  --budget     seconds for all, which are kept (default 300)\n"
    "  --cell-ms    that a measurement goes on, 1 to 60000 (default 200)\n"
    "  --block-mib  of bandwidth and pipeline, 1 to 1024 (default 64)\n"
    "  --workers    of the pipeline, 1 to 64 (default: one for each "
    "processor,\n"
    "               16 at most)\n"
    "  --start-mib  sizes of the arenas that start, 8 at most (default\n"
    "               1024,4096,16384)\n"
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

/* The whole of `text` up to `end`. */
static bool read_number(const char *text, char end, uint64_t least,
                        uint64_t most, uint64_t *out)
{
    char *stop;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *out = strtoull(text, &stop, 10);
    return errno == 0 && (*stop == end || !*stop) && *out >= least &&
           *out <= most;
}

static const struct number {
    const char *name;
    size_t offset;
    uint64_t least, most;
} numbers[] = {
    {"--repeats", offsetof(struct host_options, repeats), 1, 100},
    {"--budget", offsetof(struct host_options, budget_s), 1, 86400},
    {"--cell-ms", offsetof(struct host_options, cell_ms), 1, 60000},
    {"--block-mib", offsetof(struct host_options, block_mib), 1, 1024},
    {"--workers", offsetof(struct host_options, workers), 1, HOST_WORKERS_MAX},
    /* Of a process that measures. */
    {"--process", offsetof(struct host_options, process), 0, UINT64_MAX},
    {"--until", offsetof(struct host_options, until_ns), 0, UINT64_MAX},
};

static const struct text {
    const char *name;
    size_t offset;
} texts[] = {
    {"--driver", offsetof(struct host_options, driver)},
    {"--commit", offsetof(struct host_options, commit)},
    {"--python", offsetof(struct host_options, python)},
    {"--peers", offsetof(struct host_options, peers)},
    {"--child", offsetof(struct host_options, child)},
};

/* What stands behind "NAME=", or NULL. */
static const char *value_of(const char *argument, const char *name)
{
    size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 && argument[length] == '='
               ? argument + length + 1
               : NULL;
}

static bool read_parts(const char *names, struct host_options *out)
{
    out->parts = 0;
    for (const char *at = names;;) {
        char name[32];
        size_t length = strcspn(at, ",");
        (void)snprintf(name, sizeof(name), "%.*s", (int)length, at);
        const struct host_part *part = host_part_find(name);
        if (!part || part->is_always_run) {
            (void)fprintf(stderr, "host: no part is called \"%s\"\n", name);
            return false;
        }
        out->parts |= UINT32_C(1) << (part - host_parts);
        if (!at[length])
            return true;
        at += length + 1;
    }
}

static bool read_starts(const char *sizes, struct host_options *out)
{
    out->start_count = 0;
    for (const char *at = sizes;;) {
        if (out->start_count == HOST_STARTS_MAX ||
            !read_number(at, ',', 2, UINT64_C(1) << 20,
                         &out->start_mib[out->start_count++])) {
            (void)fprintf(stderr,
                          "host: --start-mib=%s: accepted are up to %u numbers "
                          "from 2 to 1048576\n",
                          sizes, HOST_STARTS_MAX);
            return false;
        }
        at += strcspn(at, ",");
        if (!*at++)
            return true;
    }
}

static bool read_value(const struct number *number, const char *value,
                       struct host_options *out)
{
    uint64_t *field = (uint64_t *)(void *)((char *)out + number->offset);
    if (read_number(value, '\0', number->least, number->most, field))
        return true;
    (void)fprintf(
        stderr, "host: %s=%s: accepted values are %" PRIu64 " to %" PRIu64 "\n",
        number->name, value, number->least, number->most);
    return false;
}

static bool read_option(const char *argument, struct host_options *out)
{
    const char *value;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if ((value = value_of(argument, numbers[i].name)))
            return read_value(&numbers[i], value, out);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        value = value_of(argument, texts[i].name);
        if (value && *value) {
            memcpy((char *)out + texts[i].offset, &value, sizeof(value));
            return true;
        }
    }
    if ((value = value_of(argument, "--part")))
        return read_parts(value, out);
    if ((value = value_of(argument, "--start-mib")))
        return read_starts(value, out);
    (void)fprintf(stderr, "host: %s is not accepted; --help says what is\n",
                  argument);
    return false;
}

bool host_options_parse(int argc, char **argv, struct host_options *out)
{
    *out = (struct host_options){
        .peers = "bench/host/host_peers.py",
        .parts = UINT32_MAX,
        .repeats = 5,
        .budget_s = 300,
        .cell_ms = 200,
        .block_mib = 64,
        .start_mib = {1024, 4096, 16384},
        .start_count = 3,
    };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            out->is_help = true;
        else if (!read_option(argv[i], out))
            return false;
    }
    return true;
}
