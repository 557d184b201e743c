/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a pair of an allocation and a free takes many threads when memory is
 * short, or new, or large. --help says what is printed.
 *
 * It imitates no program: sizes have nothing to do with lifetimes, and threads
 * nothing with each other.
 */
#include <stdlib.h>

#include "bench/studies/crew.h"
#include "bench/studies/study.h"

#define MIB (UINT64_C(1) << 20)
#define PLACES 64U
#define WARM_PAIRS 2000U
#define LARGE_BYTES (32 * MIB)
#define FACTORS_MAX 16U
#define PAIRS_MAX 10000000U

static const char help[] =
    "usage: limit [OPTION]...\n"
    "  --subject=S[,S]  which allocators, as `replay --list` names them\n"
    "                   (default: all)\n"
    "  --part=P[,P]     limits, first, pair (default: all)\n"
    "  --threads=N      1 to 256 (default 16)\n"
    "  --pairs=N        of each thread, 1 to 10000000 (default 20000)\n"
    "  --factors=F[,F]  limits, by what is live on average, more than 1 and\n"
    "                   up to 1000 (default 5.5,2.7,1.9,1.56)\n"
    "  --lag=L[,L]      what the device does meanwhile, as `replay --help` "
    "says\n"
    "  --repeats=N      rows of each, 1 to 100 (default 1)\n"
    "  --seed=N         of sizes and places (default 1)\n" STUDY_HELP "\n"
    "Each thread has a stream of its own and 64 blocks of 256 B to 2 MiB, "
    "each\n"
    "doubling as likely as another; a pair frees one of them at random and\n"
    "allocates another. Prints a JSON object for each row:\n"
    "limits  without a limit and with each: ns of a pair, mean of the threads\n"
    "        and of the slowest one, allocations that failed, the limit, and\n"
    "        what was live on average and at the most in a run without a "
    "limit\n"
    "        in which only that was counted.\n"
    "first   one thread: the first 20 000 pairs of a new pool, and those "
    "after.\n"
    "pair    32 MiB allocated and freed, by one thread and by all of them.\n"
    "Times are without what queueing the device's work takes.\n"
    "bench/tables/replay_table.py makes tables of them, \"limit\".\n"
    "\n"
    "exit status: 0 all well; 1 a subject could not be run; 2 bad argument\n";

static const double default_factors[] = {5.5, 2.7, 1.9, 1.56};
#define DEFAULT_COUNT (sizeof(default_factors) / sizeof(default_factors[0]))

static struct {
    uint32_t threads;
    uint32_t pairs;
    double factors[FACTORS_MAX];
    uint32_t factor_count;
} limit = {.threads = 16, .pairs = 20000};

static bool take_factor(const char *text, size_t length, void *into)
{
    char *end;
    (void)into;
    if (limit.factor_count == FACTORS_MAX || *text < '0' || *text > '9')
        return false;
    double factor = strtod(text, &end);
    limit.factors[limit.factor_count++] = factor;
    return end == text + length && factor > 1 && factor <= 1000;
}

static bool read_factors(const char *list, void *into)
{
    return command_line_each(list, take_factor, into);
}

static const char *run_job(const struct study_bout *bout,
                           const struct crew_job *job, uint64_t limit_bytes,
                           struct crew_found *out)
{
    const struct subject_setup setup = {.thread_count = job->thread_count,
                                        .stream_count = job->thread_count,
                                        .limit_bytes = limit_bytes};
    const char *why = study_start_subject(bout->subject, &setup);
    if (why)
        return why;
    why = crew_run(bout->subject, job, out);
    bout->subject->stop();
    return why;
}

/* `live`: of the run in which that was counted. */
static bool print_limit(const struct study_bout *bout,
                        const struct crew_job *job,
                        const struct crew_found *live, double factor)
{
    struct crew_found found;
    uint64_t limit_bytes = (uint64_t)(factor * (double)live->mean_live_bytes) /
                           STUDY_LIMIT_STEP_BYTES * STUDY_LIMIT_STEP_BYTES;
    const char *why = run_job(bout, job, limit_bytes, &found);
    if (why)
        return study_refuse(bout, why);
    study_begin_part(bout, job->thread_count, job->pairs);
    study_real(bout, "factor", factor);
    study_number(bout, "limit_bytes", limit_bytes);
    study_number(bout, "mean_live_bytes", live->mean_live_bytes);
    study_number(bout, "peak_live_bytes", live->peak_live_bytes);
    study_real(bout, "mean_ns", found.mean_ns);
    study_real(bout, "slowest_ns", found.slowest_ns);
    study_end_part(bout, found.failed);
    return true;
}

static bool run_limits(const struct study_bout *bout)
{
    struct crew_found live;
    struct crew_job job = {.thread_count = limit.threads,
                           .places = PLACES,
                           .warm_pairs = WARM_PAIRS,
                           .pairs = limit.pairs,
                           .seed = bout->study->seed,
                           .counts_live = true};
    const char *why = run_job(bout, &job, 0, &live);
    if (why)
        return study_refuse(bout, why);
    job.counts_live = false;
    bool is_well = print_limit(bout, &job, &live, 0);
    const double *factors =
        limit.factor_count ? limit.factors : default_factors;
    size_t count = limit.factor_count ? limit.factor_count : DEFAULT_COUNT;
    for (size_t i = 0; is_well && i < count; i++)
        is_well = print_limit(bout, &job, &live, factors[i]);
    return is_well;
}

/* One thread on a new pool, all threads, and one thread again. */
static const char *run_new_and_warm(const struct study_bout *bout,
                                    const struct crew_job *one,
                                    struct crew_found *out_first,
                                    struct crew_found *out_warm)
{
    const struct subject_setup setup = {.thread_count = limit.threads,
                                        .stream_count = limit.threads};
    struct crew_found ignored;
    struct crew_job all = *one;
    all.thread_count = limit.threads;
    const char *why = bout->subject->start(&setup);
    if (why)
        return why;
    why = crew_run(bout->subject, one, out_first);
    if (!why)
        why = crew_run(bout->subject, &all, &ignored);
    if (!why)
        why = crew_run(bout->subject, one, out_warm);
    bout->subject->stop();
    return why;
}

static bool run_first(const struct study_bout *bout)
{
    struct crew_found first;
    struct crew_found warm;
    const struct crew_job one = {.thread_count = 1,
                                 .places = PLACES,
                                 .pairs = limit.pairs,
                                 .seed = bout->study->seed};
    const char *why = run_new_and_warm(bout, &one, &first, &warm);
    if (why)
        return study_refuse(bout, why);
    study_begin_part(bout, one.thread_count, one.pairs);
    study_real(bout, "first_ns", first.mean_ns);
    study_real(bout, "mean_ns", warm.mean_ns);
    study_end_part(bout, warm.failed);
    return true;
}

static bool run_pair_of(const struct study_bout *bout, uint32_t threads)
{
    struct crew_found found;
    const struct crew_job job = {.thread_count = threads,
                                 .places = 1,
                                 .size_bytes = LARGE_BYTES,
                                 .warm_pairs = WARM_PAIRS,
                                 .pairs = limit.pairs,
                                 .seed = bout->study->seed};
    const char *why = run_job(bout, &job, 0, &found);
    if (why)
        return study_refuse(bout, why);
    study_begin_part(bout, job.thread_count, job.pairs);
    study_number(bout, "size_bytes", LARGE_BYTES);
    study_real(bout, "mean_ns", found.mean_ns);
    study_real(bout, "slowest_ns", found.slowest_ns);
    study_end_part(bout, found.failed);
    return true;
}

static bool run_pair(const struct study_bout *bout)
{
    return run_pair_of(bout, 1) &&
           (limit.threads == 1 || run_pair_of(bout, limit.threads));
}

int main(int argc, char **argv)
{
    static const struct study_part parts[] = {{"limits", run_limits},
                                              {"first", run_first},
                                              {"pair", run_pair},
                                              {NULL, NULL}};
    struct study study = {.program = "limit",
                          .help = help,
                          .has_lag = true,
                          .parts = parts,
                          .repeats = 1,
                          .seed = 1};
    const struct command_option options[] = {
        {"part", .read = study_read_parts, .into = &study,
         .refusal = " is not accepted: limits, first, pair, each once at most"},
        {"threads", 1, CREW_THREADS_MAX, .number32 = &limit.threads},
        {"pairs", 1, PAIRS_MAX, .number32 = &limit.pairs},
        {"factors", .read = read_factors,
         .refusal = " is not accepted: numbers above 1 and up to 1000, 16 at "
                    "most"},
        {"repeats", 1, STUDY_REPEATS_MAX, .number32 = &study.repeats},
        {.name = NULL},
    };
    study.options = options;
    return study_main(&study, argc, argv);
}
