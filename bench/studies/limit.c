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
#define REPEATS_MAX 100U
#define PAIRS_MAX 10000000U
/* A pool has its memory in such pieces. */
#define LIMIT_STEP_BYTES (2 * MIB)

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
    "  --seed=N         of sizes and places (default 1)\n"
    "  --driver=D       auto, cuda, standin or a path with a / in it "
    "(default:\n"
    "                   what BINADE_DRIVER says)\n"
    "  --json=FILE      write there instead of to standard output\n"
    "  --commit=ID      of what is measured (default: what git says)\n"
    "\n"
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
    uint32_t repeats;
    double factors[FACTORS_MAX];
    uint32_t factor_count;
    bool has_limits;
    bool has_first;
    bool has_pair;
} limit = {.threads = 16, .pairs = 20000, .repeats = 1};

static bool parse_factors(const char *list)
{
    for (;; list++) {
        char *end;
        if (limit.factor_count == FACTORS_MAX || *list < '0' || *list > '9')
            return false;
        double factor = strtod(list, &end);
        if ((*end && *end != ',') || !(factor > 1) || factor > 1000)
            return false;
        limit.factors[limit.factor_count++] = factor;
        list = end;
        if (!*list)
            return true;
    }
}

static bool parse_parts(const char *list)
{
    static const struct study_part parts[] = {
        {"limits", &limit.has_limits},
        {"first", &limit.has_first},
        {"pair", &limit.has_pair},
        {NULL, NULL},
    };
    return study_parse_parts(list, parts);
}

/* One subject with one lag. */
struct bout {
    struct study *study;
    const struct subject *subject;
    const struct lag_plan *lag;
    uint32_t repeat;
};

static const char *run_job(const struct bout *bout, const struct crew_job *job,
                           uint64_t limit_bytes, struct crew_found *out)
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

static void begin_row(const struct bout *bout, const char *part,
                      const struct crew_job *job)
{
    const struct study_part_row row = {part, job->thread_count, job->pairs,
                                       bout->repeat};
    study_begin_part(bout->study, "limit", bout->lag, &row);
}

static void end_row(const struct bout *bout, const struct crew_found *found)
{
    study_end_part(bout->study, bout->subject, bout->lag, found->failed);
}

static bool refuse(const struct bout *bout, const char *why)
{
    return study_refuse(bout->study, "limit", bout->subject, bout->lag, why);
}

/* `live`: of the run in which that was counted. */
static bool print_limit(const struct bout *bout, const struct crew_job *job,
                        const struct crew_found *live, double factor)
{
    struct crew_found found;
    uint64_t limit_bytes = (uint64_t)(factor * (double)live->mean_live_bytes) /
                           LIMIT_STEP_BYTES * LIMIT_STEP_BYTES;
    const char *why = run_job(bout, job, limit_bytes, &found);
    if (why)
        return refuse(bout, why);
    begin_row(bout, "limits", job);
    study_real(bout->study, "factor", factor);
    study_number(bout->study, "limit_bytes", limit_bytes);
    study_number(bout->study, "mean_live_bytes", live->mean_live_bytes);
    study_number(bout->study, "peak_live_bytes", live->peak_live_bytes);
    study_real(bout->study, "mean_ns", found.mean_ns);
    study_real(bout->study, "slowest_ns", found.slowest_ns);
    end_row(bout, &found);
    return true;
}

static bool run_limits(const struct bout *bout)
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
        return refuse(bout, why);
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
static const char *run_new_and_warm(const struct bout *bout,
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

static bool run_first(const struct bout *bout)
{
    struct crew_found first;
    struct crew_found warm;
    const struct crew_job one = {.thread_count = 1,
                                 .places = PLACES,
                                 .pairs = limit.pairs,
                                 .seed = bout->study->seed};
    const char *why = run_new_and_warm(bout, &one, &first, &warm);
    if (why)
        return refuse(bout, why);
    begin_row(bout, "first", &one);
    study_real(bout->study, "first_ns", first.mean_ns);
    study_real(bout->study, "mean_ns", warm.mean_ns);
    end_row(bout, &warm);
    return true;
}

static bool run_pair(const struct bout *bout, uint32_t threads)
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
        return refuse(bout, why);
    begin_row(bout, "pair", &job);
    study_number(bout->study, "size_bytes", LARGE_BYTES);
    study_real(bout->study, "mean_ns", found.mean_ns);
    study_real(bout->study, "slowest_ns", found.slowest_ns);
    end_row(bout, &found);
    return true;
}

static bool run_once(const struct bout *bout)
{
    bool is_all = !limit.has_limits && !limit.has_first && !limit.has_pair;
    bool is_well = true;
    if (limit.has_limits || is_all)
        is_well = run_limits(bout);
    if (is_well && (limit.has_first || is_all))
        is_well = run_first(bout);
    if (is_well && (limit.has_pair || is_all))
        is_well = run_pair(bout, 1) &&
                  (limit.threads == 1 || run_pair(bout, limit.threads));
    return is_well;
}

static bool run(struct study *study, const struct subject *subject,
                const struct lag_plan *lag)
{
    bool is_well = true;
    for (uint32_t i = 0; is_well && i < limit.repeats; i++)
        is_well = run_once(&(struct bout){study, subject, lag, i});
    return is_well;
}

int main(int argc, char **argv)
{
    static const struct study_option options[] = {
        {"part", .parse = parse_parts,
         .accepted = "limits, first, pair, each once at most"},
        {"threads", 1, CREW_THREADS_MAX, .count = &limit.threads},
        {"pairs", 1, PAIRS_MAX, .count = &limit.pairs},
        {"factors", .parse = parse_factors,
         .accepted = "numbers above 1 and up to 1000, 16 at most"},
        {"repeats", 1, REPEATS_MAX, .count = &limit.repeats},
        {.name = NULL},
    };
    struct study study = {.program = "limit",
                          .help = help,
                          .options = options,
                          .has_lag = true,
                          .run = run,
                          .seed = 1};
    return study_main(&study, argc, argv);
}
