/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/replay/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "bench/replay/trace/fields.h"
#include "bench/replay/trace/source.h"

#define REPEATS_MAX 1000U

static const char help[] =
    "usage: replay [OPTION]... TRACE...\n"
    "Replays traces on allocators and prints a JSON object for each.\n"
    "  --subject=S[,S]  which allocators (default: all that --list names)\n"
    "  --mode=M         serial (default): on one thread, in the order of the\n"
    "                   trace; with latency, footprint and what --bisect,\n"
    "                   --samples and --map ask for. concurrent: on a thread\n"
    "                   for each of the trace's, with latency alone\n"
    "  --threads=N      concurrent: deal the blocks of each of the trace's\n"
    "                   threads to several, N in all at the most, 1 to 256\n"
    "  --limit=BYTES    memory that a subject may have of its driver\n"
    "  --lag=L[,L]      what the device does meanwhile, rows of each (default\n"
    "                   idle, which queues nothing). work:N: what takes N us,\n"
    "                   1 to 100000, on its stream behind each call. fill:N:\n"
    "                   1 to 100 fills of each block that is allocated.\n"
    "                   sync:N: a thread waits for its stream at every N-th\n"
    "                   call. These three go together: work:50+sync:16. held:\n"
    "                   all streams wait until an allocation fails or a call\n"
    "                   does not return, which is counted, and then again\n"
    "  --bisect         look for the smallest limit at which nothing fails\n"
    "  --samples=N      memory at N moments, up to 100000 (default 0)\n"
    "  --map            segments and blocks at the peak\n"
    "  --repeats=N      rows of each, each of its own process, 1 to 1000\n"
    "  --driver=D       auto, cuda, standin or a path with a / in it "
    "(default:\n"
    "                   what BINADE_DRIVER says)\n"
    "  --json=FILE      write there instead of to standard output\n"
    "  --commit=ID      of what is measured (default: what git says)\n"
    "  --progress       says on standard error what is being done\n"
    "  --check          only read the traces, and say what is in them\n"
    "  --list           names the subjects\n"
    "Traces are plain text (docs/traces.md), not compressed; rows are as in\n"
    "docs/replay.md.\n"
    "exit status: 0 all well; 1 a subject could not be replayed on; 2 bad\n"
    "             argument; 3 a trace is wrong\n";

void replay_options_print_help(void)
{
    (void)fputs(help, stdout);
}

void replay_options_print_list(void)
{
    for (size_t i = 0; replay_subjects[i]; i++)
        printf("%-22s %s\n", replay_subjects[i]->name,
               replay_subjects[i]->description);
}

static int refuse(const char *option, const char *value, const char *accepted)
{
    (void)fprintf(stderr, "replay: --%s=%s is not accepted: %s\n", option,
                  value, accepted);
    return -1;
}

static int parse_number(const char *option, const char *text, uint64_t least,
                        uint64_t most, uint64_t *out)
{
    char accepted[64];
    const char *at = text;
    if (replay_take_number(&at, out) && !*at && *out >= least && *out <= most)
        return 0;
    (void)snprintf(accepted, sizeof(accepted), "%llu to %llu",
                   (unsigned long long)least, (unsigned long long)most);
    return refuse(option, text, accepted);
}

static int parse_count(const char *option, const char *text, uint64_t least,
                       uint64_t most, uint32_t *out)
{
    uint64_t number;
    if (parse_number(option, text, least, most, &number) != 0)
        return -1;
    *out = (uint32_t)number;
    return 0;
}

static bool has_subject(const struct replay_options *options,
                        const struct subject *subject)
{
    for (uint32_t i = 0; i < options->subject_count; i++)
        if (options->subjects[i] == subject)
            return true;
    return false;
}

/* The option may come several times. */
static int parse_subjects(const char *list, struct replay_options *out)
{
    for (const char *name = list;; name++) {
        size_t length = strcspn(name, ",");
        const struct subject *subject =
            subject_named(replay_subjects, name, length);
        if (!subject || has_subject(out, subject))
            return refuse("subject", list,
                          "names of --list, each once at most");
        out->subjects[out->subject_count++] = subject;
        name += length;
        if (!*name)
            return 0;
    }
}

static int parse_mode(const char *text, struct replay_options *out)
{
    out->is_concurrent = strcmp(text, "concurrent") == 0;
    if (out->is_concurrent || strcmp(text, "serial") == 0)
        return 0;
    return refuse("mode", text, "serial or concurrent");
}

static int parse_lags(const char *list, struct replay_options *out)
{
    return lag_plans_parse(list, &out->lags)
               ? 0
               : refuse("lag", list, lag_accepted);
}

static int parse_text(const char *option, const char *text, const char **out)
{
    *out = text;
    return *text ? 0 : refuse(option, text, "a name is wanted");
}

static int parse_valued(int letter, const char *value,
                        struct replay_options *out)
{
    switch (letter) {
    case 's':
        return parse_subjects(value, out);
    case 'm':
        return parse_mode(value, out);
    case 'g':
        return parse_lags(value, out);
    case 't':
        return parse_count("threads", value, 1, REPLAY_THREADS_MAX,
                           &out->threads);
    case 'l':
        return parse_number("limit", value, 1, UINT64_C(1) << 60,
                            &out->limit_bytes);
    case 'n':
        return parse_count("samples", value, 0, REPLAY_SAMPLES_MAX,
                           &out->samples);
    case 'r':
        return parse_count("repeats", value, 1, REPEATS_MAX, &out->repeats);
    case 'C':
        out->is_child = true;
        return parse_count("child", value, 0, REPEATS_MAX, &out->repeat);
    case 'd':
        return parse_text("driver", value, &out->driver);
    case 'j':
        return parse_text("json", value, &out->json_path);
    default:
        return parse_text("commit", value, &out->commit);
    }
}

static int parse_option(int letter, const char *value,
                        struct replay_options *out)
{
    out->is_bisect |= letter == 'b';
    out->is_map |= letter == 'M';
    out->is_progress |= letter == 'p';
    out->is_check |= letter == 'k';
    out->is_list |= letter == 'L';
    out->is_help |= letter == 'h';
    return value ? parse_valued(letter, value, out) : 0;
}

static int check(struct replay_options *out)
{
    if (out->is_help || out->is_list)
        return 0;
    if (out->path_count == 0) {
        (void)fputs("replay: no trace is named; --help says what is accepted\n",
                    stderr);
        return -1;
    }
    if (out->is_concurrent && (out->is_bisect || out->is_map || out->samples)) {
        (void)fputs("replay: --bisect, --samples and --map are of the serial "
                    "mode\n",
                    stderr);
        return -1;
    }
    if (!out->is_concurrent && out->threads) {
        (void)fputs("replay: --threads is of the concurrent mode\n", stderr);
        return -1;
    }
    return 0;
}

static void set_defaults(struct replay_options *out)
{
    if (out->subject_count == 0)
        for (size_t i = 0; replay_subjects[i] && i < REPLAY_SUBJECTS_MAX; i++)
            out->subjects[out->subject_count++] = replay_subjects[i];
    if (out->lags.count == 0)
        out->lags.plans[out->lags.count++] = lag_idle;
}

int replay_options_parse(int argc, char **argv, struct replay_options *out)
{
    static const struct option known[] = {
        {"subject", required_argument, NULL, 's'},
        {"mode", required_argument, NULL, 'm'},
        {"threads", required_argument, NULL, 't'},
        {"limit", required_argument, NULL, 'l'},
        {"lag", required_argument, NULL, 'g'},
        {"samples", required_argument, NULL, 'n'},
        {"repeats", required_argument, NULL, 'r'},
        {"driver", required_argument, NULL, 'd'},
        {"json", required_argument, NULL, 'j'},
        {"commit", required_argument, NULL, 'c'},
        {"child", required_argument, NULL, 'C'}, /* of our own: which repeat */
        {"bisect", no_argument, NULL, 'b'},
        {"map", no_argument, NULL, 'M'},
        {"progress", no_argument, NULL, 'p'},
        {"check", no_argument, NULL, 'k'},
        {"list", no_argument, NULL, 'L'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int letter;
    *out = (struct replay_options){.repeats = 1};
    opterr = 0; /* what is wrong is said here, in one manner */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    while ((letter = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (letter == '?') {
            (void)fprintf(stderr,
                          "replay: %s is not accepted; --help says what is\n",
                          argv[optind - 1]);
            return -1;
        }
        if (parse_option(letter, optarg, out) != 0)
            return -1;
    }
    out->paths = argv + optind;
    out->path_count = argc - optind;
    set_defaults(out);
    return check(out);
}
