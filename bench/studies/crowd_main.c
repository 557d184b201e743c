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

#define THREADS_MAX LAG_THREADS_MAX
#define STREAMS_MAX 64U
#define PAIRS_MAX 100000U
#define WORK_MAX 10000000U
#define TIB (UINT64_C(1) << 40)
#define CONF_BYTES 4096U
/* What one thread's may hold by default. */
#define THREAD_CACHE_BYTES (UINT64_C(64) << 20)

static const char help[] =
    "usage: crowd [OPTION]...\n"
    "  --subject=S[,S]  moiety, moiety-nocache, moiety-mapped (default: "
    "moiety)\n"
    "  --threads=N      that rest, 1 to 8192 (default 4096)\n"
    "  --streams=N      that each of them uses, 1 to 64 (default 8)\n"
    "  --pairs=N        of each thread on each stream, 1 to 100000 (default "
    "1)\n"
    "  --size=BYTES     of their blocks, 1 to 1 TiB (default 64 KiB)\n"
    "  --cache=BYTES    what all threads' caches may hold, and one's no more, "
    "1 to\n"
    "                   1 TiB (default: what MOIETY_CONF or the pool says)\n"
    "  --work=N         pairs of the thread that works, 1 to 10000000 "
    "(default\n"
    "                   100000)\n"
    "  --lag=L[,L]      what the device does meanwhile, as `replay --help` "
    "says\n"
    "  --repeats=N      rows, 1 to 100 (default 1)\n"
    "  --seed=N         of its sizes and places (default 1)\n" STUDY_HELP "\n"
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
} crowd = {.size_bytes = (uint64_t)64 << 10,
           .threads = 4096,
           .streams = 8,
           .pairs = 1,
           .work_pairs = 100000};

/* What all caches may hold is no less than what one thread's may. Behind what
 * the user says already: a key that is there twice is refused when the pool is
 * made. */
static bool read_cache(const char *text, void *into)
{
    (void)into;
    char conf[CONF_BYTES];
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    const char *before = getenv("MOIETY_CONF");
    if (crowd.cache_bytes ||
        !command_line_number(text, 1, TIB, &crowd.cache_bytes))
        return false;
    uint64_t bytes = crowd.cache_bytes < THREAD_CACHE_BYTES
                         ? crowd.cache_bytes
                         : THREAD_CACHE_BYTES;
    int length = snprintf(conf, sizeof(conf),
                          "%s%scache:%" PRIu64 ",thread_cache:%" PRIu64,
                          before ? before : "", before && *before ? "," : "",
                          crowd.cache_bytes, bytes);
    return length < (int)sizeof(conf) &&
           /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
           setenv("MOIETY_CONF", conf, 1) == 0;
}

static const char *refusal(const struct subject *subject)
{
    if (!subject_is_moiety(subject->name))
        return "it is not Moiety's, whose caches are what is measured";
    if (crowd.cache_bytes && strcmp(subject->name, "moiety-nocache") == 0)
        return "it has no caches that --cache could bound";
    return NULL;
}

static const char *run_once(const struct subject *subject, uint64_t seed,
                            struct crowd_found *out)
{
    const struct crowd_job job = {.thread_count = crowd.threads,
                                  .stream_count = crowd.streams,
                                  .pairs = crowd.pairs,
                                  .size_bytes = crowd.size_bytes,
                                  .work_pairs = crowd.work_pairs,
                                  .seed = seed};
    const struct subject_setup setup = {.thread_count = job.thread_count,
                                        .stream_count = job.stream_count};
    const char *why = subject->start(&setup);
    if (why)
        return why;
    why = crowd_run(subject, &job, out);
    subject->stop();
    return why;
}

static void put_work(const struct study_bout *bout, const char *name,
                     const struct crowd_work *found)
{
    char key[24];
    (void)snprintf(key, sizeof(key), "%s_ns", name);
    study_real(bout, key, found->mean_ns);
    (void)snprintf(key, sizeof(key), "%s_hits", name);
    study_real(bout, key, found->hits);
}

static void print_row(const struct study_bout *bout,
                      const struct crowd_found *found)
{
    /* Later crowds use host memory that the first one leaves to the process. */
    static bool is_later;
    bool is_first = !is_later;
    double uses = (double)crowd.threads * crowd.streams;
    is_later = true;
    study_begin_row(bout);
    study_number(bout, "threads", crowd.threads);
    study_number(bout, "streams", crowd.streams);
    study_number(bout, "pairs", crowd.pairs);
    study_number(bout, "size_bytes", crowd.size_bytes);
    study_number(bout, "cache_bytes", crowd.cache_bytes);
    study_number(bout, "work_pairs", crowd.work_pairs);
    study_number(bout, "repeat", bout->repeat);
    study_number(bout, "pool_threads", found->resting.threads);
    study_number(bout, "cached_bytes", found->resting.cached_bytes);
    study_number(bout, "cached_before_bytes", found->coming.cached_bytes);
    study_number(bout, "retiring_bytes", found->resting.retiring_bytes);
    study_number(bout, "retiring_before_bytes", found->coming.retiring_bytes);
    study_number(bout, "cache_bound_bytes", found->resting.cache_bound_bytes);
    study_number(bout, "reserved_bytes", found->resting.reserved_bytes_current);
    study_number(bout, "host_bytes",
                 is_first ? found->host_bytes : SUBJECT_UNKNOWN);
    study_real_or_null(bout, "host_bytes_each",
                       (double)found->host_bytes / uses, is_first);
    put_work(bout, "before", &found->before);
    put_work(bout, "beside", &found->beside);
    put_work(bout, "after", &found->after);
    study_number(bout, "end_ns", found->end_ns);
    study_number(bout, "failed",
                 found->failed + found->before.failed + found->beside.failed +
                     found->after.failed);
    study_end_row(bout);
}

static bool run(const struct study_bout *bout)
{
    struct crowd_found found;
    const char *why = run_once(bout->subject, bout->study->seed, &found);
    if (why)
        return study_refuse(bout, why);
    print_row(bout, &found);
    return true;
}

int main(int argc, char **argv)
{
    static const struct study_part parts[] = {{"crowd", run}, {NULL, NULL}};
    struct study study = {.program = "crowd",
                          .help = help,
                          .has_lag = true,
                          .default_subjects = "moiety",
                          .parts = parts,
                          .refusal = refusal,
                          .repeats = 1,
                          .seed = 1};
    const struct command_option options[] = {
        {"threads", 1, THREADS_MAX, .number32 = &crowd.threads},
        {"streams", 1, STREAMS_MAX, .number32 = &crowd.streams},
        {"pairs", 1, PAIRS_MAX, .number32 = &crowd.pairs},
        {"size", 1, TIB, .number = &crowd.size_bytes, .is_bytes = true},
        {"cache", .read = read_cache,
         .refusal = " is not accepted: 1 to 1099511627776, once"},
        {"work", 1, WORK_MAX, .number32 = &crowd.work_pairs},
        {"repeats", 1, STUDY_REPEATS_MAX, .number32 = &study.repeats},
        {.name = NULL},
    };
    study.options = options;
    return study_main(&study, argc, argv);
}
