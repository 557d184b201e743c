/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What thousands of threads that have used many streams, and rest, leave in
 * caches and cost on the host, and what a thread that works beside them pays.
 * --help says what is printed.
 *
 * It does not show what many threads cost that work at once.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/studies/crowd.h"
#include "bench/studies/study.h"
#include "bench/subjects/pool.h"

#define THREADS_MAX 8192U
#define STREAMS_MAX 64U
#define PAIRS_MAX 100000U
#define WORK_MAX 10000000U
#define REPEATS_MAX 100U
#define TIB (UINT64_C(1) << 40)
#define CONF_BYTES 4096U
/* What one thread's may hold by default. */
#define THREAD_CACHE_BYTES (UINT64_C(64) << 20)

static const char help[] =
    "usage: crowd [OPTION]...\n"
    "  --subject=S[,S]  binade, binade-nocache (default: binade)\n"
    "  --threads=N      that rest, 1 to 8192 (default 4096)\n"
    "  --streams=N      that each of them uses, 1 to 64 (default 8)\n"
    "  --pairs=N        of each thread on each stream, 1 to 100000 (default "
    "1)\n"
    "  --size=BYTES     of their blocks, 1 to 1 TiB (default 64 KiB)\n"
    "  --cache=BYTES    what all threads' caches may hold, and one's no more, "
    "1 to\n"
    "                   1 TiB (default: what BINADE_CONF or the pool says)\n"
    "  --work=N         pairs of the thread that works, 1 to 10000000 "
    "(default\n"
    "                   100000)\n"
    "  --repeats=N      rows, 1 to 100 (default 1)\n"
    "  --seed=N         of its sizes and places (default 1)\n"
    "  --driver=D       auto, cuda, standin or a path with a / in it "
    "(default:\n"
    "                   what BINADE_DRIVER says)\n"
    "  --json=FILE      write there instead of to standard output\n"
    "  --commit=ID      of what is measured (default: what git says)\n"
    "\n"
    "Threads that share all streams allocate and free a block on each, and "
    "rest\n"
    "until all end together. Prints a JSON object for each row:\n"
    "- what rests in caches and what waits for work, once all rest and before\n"
    "  they come, and the bound on the former;\n"
    "- the host memory that their pairs took, in the first row: later ones "
    "use\n"
    "  what is left of it;\n"
    "- ns of a pair, and which part of allocations its cache served, of one\n"
    "  thread that works: before the crowd comes, beside it, and after it has\n"
    "  ended. It has 64 blocks of 256 B to 2 MiB, as in bench/studies/limit.c, "
    "on the\n"
    "  first stream;\n"
    "- how long it takes until all threads have ended.\n"
    "bench/tables/replay_table.py makes a table of them, \"crowd\".\n"
    "\n"
    "exit status: 0 all well; 1 it could not be run; 2 bad argument\n";

static struct {
    uint64_t size_bytes;
    uint64_t cache_bytes; /* 0: not said */
    uint32_t threads;
    uint32_t streams;
    uint32_t pairs;
    uint32_t work_pairs;
    uint32_t repeats;
} options = {.size_bytes = (uint64_t)64 << 10,
             .threads = 4096,
             .streams = 8,
             .pairs = 1,
             .work_pairs = 100000,
             .repeats = 1};

/* What all caches may hold is no less than what one thread's may. Behind what
 * the user says already: a key that is there twice is refused when the pool is
 * made. */
static bool parse_cache(const char *text)
{
    char conf[CONF_BYTES];
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    const char *before = getenv("BINADE_CONF");
    uint64_t bytes;
    if (options.cache_bytes || !study_parse_number(text, 1, TIB, &bytes))
        return false;
    options.cache_bytes = bytes;
    if (bytes > THREAD_CACHE_BYTES)
        bytes = THREAD_CACHE_BYTES;
    int length = snprintf(conf, sizeof(conf),
                          "%s%scache:%" PRIu64 ",thread_cache:%" PRIu64,
                          before ? before : "", before && *before ? "," : "",
                          options.cache_bytes, bytes);
    return length < (int)sizeof(conf) &&
           /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
           setenv("BINADE_CONF", conf, 1) == 0;
}

static const char *run_once(const struct subject *subject, uint64_t seed,
                            struct crowd_found *out)
{
    const struct crowd_job job = {.thread_count = options.threads,
                                  .stream_count = options.streams,
                                  .pairs = options.pairs,
                                  .size_bytes = options.size_bytes,
                                  .work_pairs = options.work_pairs,
                                  .seed = seed};
    const struct subject_setup setup = {.thread_count = job.thread_count,
                                        .stream_count = job.stream_count};
    if (!subject_is_binade(subject->name))
        return "it is not Binade's, whose caches are what is measured";
    if (options.cache_bytes && strcmp(subject->name, "binade") != 0)
        return "it has no caches that --cache could bound";
    const char *why = subject->start(&setup);
    if (why)
        return why;
    why = crowd_run(subject, &job, out);
    subject->stop();
    return why;
}

static void put_work(struct study *study, const char *name,
                     const struct crowd_work *found)
{
    char key[24];
    (void)snprintf(key, sizeof(key), "%s_ns", name);
    study_real(study, key, found->mean_ns);
    (void)snprintf(key, sizeof(key), "%s_hits", name);
    study_real(study, key, found->hits);
}

static void print_row(struct study *study, const struct subject *subject,
                      const struct lag_plan *lag, uint32_t repeat,
                      const struct crowd_found *found)
{
    /* Later crowds use host memory that the first one leaves to the process. */
    static bool is_later;
    bool is_first = !is_later;
    double uses = (double)options.threads * options.streams;
    is_later = true;
    study_begin_row(study, "crowd", lag);
    study_number(study, "threads", options.threads);
    study_number(study, "streams", options.streams);
    study_number(study, "pairs", options.pairs);
    study_number(study, "size_bytes", options.size_bytes);
    study_number(study, "cache_bytes", options.cache_bytes);
    study_number(study, "work_pairs", options.work_pairs);
    study_number(study, "repeat", repeat);
    study_number(study, "pool_threads", found->resting.threads);
    study_number(study, "cached_bytes", found->resting.cached_bytes);
    study_number(study, "cached_before_bytes", found->coming.cached_bytes);
    study_number(study, "retiring_bytes", found->resting.retiring_bytes);
    study_number(study, "retiring_before_bytes", found->coming.retiring_bytes);
    study_number(study, "cache_bound_bytes", found->resting.cache_bound_bytes);
    study_number(study, "reserved_bytes",
                 found->resting.reserved_bytes_current);
    study_number(study, "host_bytes",
                 is_first ? found->host_bytes : SUBJECT_UNKNOWN);
    study_real_or_null(study, "host_bytes_each",
                       (double)found->host_bytes / uses, is_first);
    put_work(study, "before", &found->before);
    put_work(study, "beside", &found->beside);
    put_work(study, "after", &found->after);
    study_number(study, "end_ns", found->end_ns);
    study_number(study, "failed",
                 found->failed + found->before.failed + found->beside.failed +
                     found->after.failed);
    study_end_row(study, subject);
}

static bool run(struct study *study, const struct subject *subject,
                const struct lag_plan *lag)
{
    for (uint32_t i = 0; i < options.repeats; i++) {
        struct crowd_found found;
        const char *why = run_once(subject, study->seed, &found);
        if (why)
            return study_refuse(study, "crowd", subject, lag, why);
        print_row(study, subject, lag, i, &found);
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct study_option accepted[] = {
        {"threads", 1, THREADS_MAX, .count = &options.threads},
        {"streams", 1, STREAMS_MAX, .count = &options.streams},
        {"pairs", 1, PAIRS_MAX, .count = &options.pairs},
        {"size", 1, TIB, .number = &options.size_bytes},
        {"cache", .parse = parse_cache, .accepted = "1 to 1099511627776, once"},
        {"work", 1, WORK_MAX, .count = &options.work_pairs},
        {"repeats", 1, REPEATS_MAX, .count = &options.repeats},
        {.name = NULL},
    };
    struct study study = {.program = "crowd",
                          .help = help,
                          .options = accepted,
                          .default_subjects = "binade",
                          .run = run,
                          .seed = 1};
    return study_main(&study, argc, argv);
}
