/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/replay/options.h"

#include <stdio.h>
#include <string.h>

#include "bench/base/command_line.h"
#include "bench/lag/touch.h"
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
    "  --limit=BYTES    memory that a subject may have of its driver: 8GiB\n"
    "  --lag=L[,L]      what the device does meanwhile, rows of each (default\n"
    "                   idle, which queues nothing). work:N: what takes N us,\n"
    "                   1 to 100000, on its stream behind each call. fill:N:\n"
    "                   1 to 100 fills of each block that is allocated.\n"
    "                   sync:N: a thread waits for its stream at every N-th\n"
    "                   call. These three go together: work:50+sync:16. held:\n"
    "                   all streams wait until an allocation fails or a call\n"
    "                   does not return, which is counted, and then again\n"
    "  --touch=N        pages of other memory that a thread touches before "
    "each\n"
    "                   call that is timed, as a program does, 0 to 65536\n"
    "                   (default 0: all is in the processor's caches)\n"
    "  --bisect         look for the smallest limit at which nothing fails\n"
    "  --fit            the same, and that nothing fails at limits above it\n"
    "  --samples=N      memory at N moments, up to 100000 (default 0)\n"
    "  --map            segments and blocks at the peak\n"
    "  --repeats=N      rows of each, each of its own process, 1 to 1000\n"
    "  --driver=D       auto, cuda, standin or a path with a / in it "
    "(default:\n"
    "                   what MOIETY_DRIVER says)\n"
    "  --json=FILE      write there instead of to standard output\n"
    "  --commit=ID      of what is measured (default: what git says)\n"
    "  --progress       says on standard error what is being done\n"
    "  --check          only read the traces, and say what is in them\n"
    "  --list           names the subjects\n"
    "Traces are plain text (docs/dev/trace-format.md), not compressed; rows\n"
    "are as in docs/dev/replay.md. Without MOIETY_STANDIN_MEMORY the stand-in\n"
    "has room for four times what the trace has live, 8 GiB at least.\n"
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

/* The option may come several times. */
static bool read_subjects(const char *list, void *into)
{
    return command_line_each(list, subject_list_take, into);
}

static bool read_mode(const char *text, void *into)
{
    bool *is_concurrent = into;
    *is_concurrent = strcmp(text, "concurrent") == 0;
    return *is_concurrent || strcmp(text, "serial") == 0;
}

static bool read_lags(const char *list, void *into)
{
    return lag_plans_parse(list, into);
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
        (void)fputs("replay: --bisect, --fit, --samples and --map are of the "
                    "serial mode\n",
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
    if (out->subjects.count == 0)
        subject_list_take_all(&out->subjects);
    if (out->lags.count == 0)
        out->lags.plans[out->lags.count++] = lag_idle;
    out->is_bisect |= out->is_fit;
}

int replay_options_parse(int argc, char **argv, struct replay_options *out)
{
    const struct command_option options[] = {
        {"subject", .read = read_subjects, .into = &out->subjects,
         .refusal = " is not accepted: names of --list, each once at most"},
        {"mode", .read = read_mode, .into = &out->is_concurrent,
         .refusal = " is not accepted: serial or concurrent"},
        {"threads", 1, REPLAY_THREADS_MAX, .number32 = &out->threads},
        {"limit", 1, UINT64_C(1) << 60, .number = &out->limit_bytes,
         .is_bytes = true},
        {"lag", .read = read_lags, .into = &out->lags,
         .refusal = " is not accepted: " LAG_ACCEPTED},
        {"samples", 0, REPLAY_SAMPLES_MAX, .number32 = &out->samples},
        {"touch", 0, TOUCH_PAGES_MAX, .number32 = &out->touch_pages},
        {"repeats", 1, REPEATS_MAX, .number32 = &out->repeats},
        {"driver", .text = &out->driver},
        {"json", .text = &out->json_path},
        {"commit", .text = &out->commit},
        {"bisect", .is_given = &out->is_bisect},
        {"fit", .is_given = &out->is_fit},
        {"map", .is_given = &out->is_map},
        {"progress", .is_given = &out->is_progress},
        {"check", .is_given = &out->is_check},
        {"list", .is_given = &out->is_list},
        {"help", .is_given = &out->is_help},
        /* Of our own: which repeat. */
        {"child", 0, REPEATS_MAX, .number32 = &out->repeat,
         .is_given = &out->is_child},
        {.name = NULL},
    };
    const struct command_line line = {"replay", NULL, options, true};
    *out = (struct replay_options){.repeats = 1,
                                   .subjects.table = replay_subjects};
    int first = command_line_read(&line, argc, argv);
    if (first < 0)
        return -1;
    out->paths = argv + first;
    out->path_count = argc - first;
    set_defaults(out);
    return check(out);
}
