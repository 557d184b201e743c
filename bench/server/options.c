/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/server/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/base/command_line.h"

#define DEVICE_MAX 1023U
#define SECONDS_MAX 3600.0
#define REQUESTS_MAX UINT64_C(1000000000)

static const char usage[] =
    "usage: server [--driver=D] [--device=INDEX] [--threads=N] [--seconds=S]\n"
    "              [--requests=N] [--subjects=S[,S]] [--seed=N] [--json=FILE]\n"
    "  --driver=D      standin: no GPU needed (default); auto: this machine's\n"
    "                  CUDA driver; cuda: the same, never a stand-in; or a\n"
    "                  library's path with a / in it\n"
    "  --device=INDEX  device to use, from 0 (default 0)\n"
    "  --threads=N     worker threads, 1 to 64 (default: the processors)\n"
    "  --seconds=S     time to serve, all subjects together, up to 3600\n"
    "                  (default 6); 0: only say what the driver is\n"
    "  --requests=N    requests for each subject, however long they take\n"
    "  --subjects=S    who allocates, separated by commas\n"
    "  --staging=S     arena: inputs wait for their copies in a host arena\n"
    "                  nearest to the device (default; MOIETY_CONF has the\n"
    "                  keys host_...); planted: the same with a bug: the CPU\n"
    "                  does not wait until a buffer is copied\n"
    "  --seed=N        of the requests' sizes (default 1)\n"
    "  --json=FILE     write the comparison there too, an object a line\n"
    "subjects:\n";

static const char epilogue[] =
    "exit status: 0 all well; 1 a wrong byte, a leak, or a call that failed;\n"
    "             2 bad argument; 3 no such driver or device\n";

void server_options_print_usage(void)
{
    (void)fputs(usage, stdout);
    for (size_t i = 0; server_subjects[i]; i++)
        printf("  %-14s  %s%s\n", server_subjects[i]->name,
               server_subjects[i]->description,
               server_subjects[i]->is_default ? "" : " (not by default)");
    (void)fputs(epilogue, stdout);
}

static bool read_seconds(const char *text, void *into)
{
    double *out = into;
    char *end;
    *out = strtod(text, &end);
    /* The comparison is false for what is not a number, too. */
    return end != text && !*end && *out >= 0 && *out <= SECONDS_MAX;
}

static bool take_subject(const char *name, size_t length, void *into)
{
    struct server_options *out = into;
    const struct server_subject *const *named = server_subjects;
    while (*named && (strlen((*named)->name) != length ||
                      strncmp((*named)->name, name, length) != 0))
        named++;
    for (unsigned i = 0; i < out->subject_count; i++)
        if (out->subjects[i] == *named)
            return false;
    if (!*named)
        return false;
    out->subjects[out->subject_count++] = *named;
    return true;
}

/* None is taken twice, so there is room for all. */
static bool read_subjects(const char *list, void *into)
{
    struct server_options *out = into;
    out->subject_count = 0;
    return command_line_each(list, take_subject, out);
}

static bool read_staging(const char *text, void *into)
{
    enum server_staging_kind *out = into;
    bool is_planted = strcmp(text, "planted") == 0;
    *out = is_planted ? SERVER_STAGING_PLANTED : SERVER_STAGING_ARENA;
    return is_planted || strcmp(text, "arena") == 0;
}

static void set_defaults(struct server_options *out)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (processors < 1)
        processors = 1;
    *out = (struct server_options){
        .driver = "standin",
        .thread_count = processors < (long)SERVER_THREADS_MAX
                            ? (unsigned)processors
                            : SERVER_THREADS_MAX,
        .seconds = 6,
        .seed = 1,
    };
    for (size_t i = 0; server_subjects[i]; i++)
        if (server_subjects[i]->is_default)
            out->subjects[out->subject_count++] = server_subjects[i];
}

int server_options_parse(int argc, char **argv, struct server_options *out)
{
    uint32_t device = 0;
    const struct command_option options[] = {
        {"driver", .text = &out->driver},
        {"device", 0, DEVICE_MAX, .number32 = &device},
        {"threads", 1, SERVER_THREADS_MAX, .number32 = &out->thread_count},
        {"seconds", .read = read_seconds, .into = &out->seconds,
         .refusal = " is not accepted: 0 to 3600"},
        {"requests", 1, REQUESTS_MAX, .number = &out->request_count},
        {"subjects", .read = read_subjects, .into = out,
         .refusal = " is not accepted: names of --help, each once at most"},
        {"staging", .read = read_staging, .into = &out->staging,
         .refusal = " is not accepted: arena or planted"},
        {"seed", 0, UINT64_MAX, .number = &out->seed},
        {"json", .text = &out->json_path},
        {"help", .is_given = &out->is_help},
        {.name = NULL},
    };
    const struct command_line line = {"server", NULL, options, false};
    set_defaults(out);
    int result = command_line_read(&line, argc, argv);
    out->device = (int)device;
    return result < 0 ? -1 : 0;
}
