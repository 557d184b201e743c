/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/server/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    "                  nearest to the device (default; BINADE_CONF has the\n"
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

static int refuse(const char *option, const char *value, const char *accepted)
{
    (void)fprintf(stderr, "server: --%s=%s is not accepted: %s\n", option,
                  value, accepted);
    return -1;
}

static int parse_number(const char *option, const char *text, uint64_t least,
                        uint64_t most, uint64_t *out)
{
    char accepted[64];
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno && *out >= least &&
        *out <= most)
        return 0;
    (void)snprintf(accepted, sizeof(accepted), "%llu to %llu",
                   (unsigned long long)least, (unsigned long long)most);
    return refuse(option, text, accepted);
}

static int parse_seconds(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    /* The comparison is false for what is not a number, too. */
    if (end != text && !*end && *out >= 0 && *out <= SECONDS_MAX)
        return 0;
    return refuse("seconds", text, "0 to 3600");
}

static const struct server_subject *subject_named(const char *name,
                                                  size_t length)
{
    for (size_t i = 0; server_subjects[i]; i++)
        if (strncmp(server_subjects[i]->name, name, length) == 0 &&
            !server_subjects[i]->name[length])
            return server_subjects[i];
    return NULL;
}

static bool has_subject(const struct server_options *options,
                        const struct server_subject *subject)
{
    for (unsigned i = 0; i < options->subject_count; i++)
        if (options->subjects[i] == subject)
            return true;
    return false;
}

/* None is taken twice, so there is room for all. */
static int parse_subjects(const char *list, struct server_options *out)
{
    out->subject_count = 0;
    for (const char *name = list;; name++) {
        size_t length = strcspn(name, ",");
        const struct server_subject *subject = subject_named(name, length);
        if (!subject || has_subject(out, subject))
            return refuse("subjects", list,
                          "names of --help, each once at most");
        out->subjects[out->subject_count++] = subject;
        name += length;
        if (!*name)
            return 0;
    }
}

static int parse_text(const char *option, const char *text, const char **out)
{
    *out = text;
    return *text ? 0 : refuse(option, text, "a name is wanted");
}

static int parse_staging(const char *text, enum server_staging_kind *out)
{
    bool is_planted = strcmp(text, "planted") == 0;
    if (!is_planted && strcmp(text, "arena") != 0)
        return refuse("staging", text, "arena or planted");
    *out = is_planted ? SERVER_STAGING_PLANTED : SERVER_STAGING_ARENA;
    return 0;
}

static int parse_option(int letter, const char *value,
                        struct server_options *out)
{
    uint64_t number = 0;
    int result = 0;
    switch (letter) {
    case 'd':
        return parse_text("driver", value, &out->driver);
    case 'j':
        return parse_text("json", value, &out->json_path);
    case 's':
        return parse_seconds(value, &out->seconds);
    case 'a':
        return parse_subjects(value, out);
    case 'g':
        return parse_staging(value, &out->staging);
    case 'r':
        return parse_number("requests", value, 1, REQUESTS_MAX,
                            &out->request_count);
    case 'n':
        return parse_number("seed", value, 0, UINT64_MAX, &out->seed);
    case 'i':
        result = parse_number("device", value, 0, DEVICE_MAX, &number);
        out->device = (int)number;
        return result;
    case 't':
        result = parse_number("threads", value, 1, SERVER_THREADS_MAX, &number);
        out->thread_count = (unsigned)number;
        return result;
    default:
        out->is_help = true;
        return 0;
    }
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
    static const struct option known[] = {
        {"driver", required_argument, NULL, 'd'},
        {"device", required_argument, NULL, 'i'},
        {"threads", required_argument, NULL, 't'},
        {"seconds", required_argument, NULL, 's'},
        {"requests", required_argument, NULL, 'r'},
        {"subjects", required_argument, NULL, 'a'},
        {"staging", required_argument, NULL, 'g'},
        {"seed", required_argument, NULL, 'n'},
        {"json", required_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int letter;
    set_defaults(out);
    opterr = 0; /* what is wrong is said here, in one manner */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    while ((letter = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (letter == '?') {
            (void)fprintf(stderr,
                          "server: %s is not accepted; --help says what is\n",
                          argv[optind - 1]);
            return -1;
        }
        if (parse_option(letter, optarg, out) != 0)
            return -1;
    }
    if (optind == argc)
        return 0;
    (void)fprintf(stderr, "server: %s is not accepted; --help says what is\n",
                  argv[optind]);
    return -1;
}
