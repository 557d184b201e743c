/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How long it takes until memory that one stream freed serves another, when
 * there is no other memory. --help says what is printed.
 *
 * It imitates no program: a program that is short of memory rarely needs, of
 * all that it freed, the very block that it freed last.
 */
#include <string.h>

#include <binade/pool.h>

#include "bench/base/device.h"
#include "bench/studies/relay.h"
#include "bench/studies/study.h"
#include "bench/subjects/lagging.h"
#include "bench/subjects/pool.h"

#define MIB (UINT64_C(1) << 20)
#define REPEATS_MAX 100U
#define PAIRS_MAX 10000000U
#define BLOCKS_MAX 4096U
#define PAUSE_MAX_NS 1000000000U
/* How long a thread polls before its block counts as failed. */
#define POLL_PATIENCE_NS UINT64_C(1000000000)
/* Work that takes less is over when the block is freed, or nearly so. */
#define LAG_LEAST_NS 5000
/* A pool has its memory in such pieces. */
#define LIMIT_STEP_BYTES (2 * MIB)

static const char help[] =
    "usage: reuse [OPTION]...\n"
    "  --subject=S[,S]  which allocators, as `replay --list` names them\n"
    "                   (default: all)\n"
    "  --part=P[,P]     wait, poll, unlimited (default: all)\n"
    "  --threads=N      1 to 256 (default 1)\n"
    "  --pairs=N        rounds of each thread, 1 to 10000000 (default 1000)\n"
    "  --size=BYTES     of a block, 1 to 1 TiB (default 1 MiB)\n"
    "  --limit=BYTES    2 MiB to 1 TiB (default: a block for each thread, in\n"
    "                   whole pieces of 2 MiB)\n"
    "  --between=NS     how long a thread that polls is busy between two "
    "calls,\n"
    "                   0 to 1000000000 (default 1000)\n"
    "  --blocks=N       of each thread without a limit, 1 to 4096 (default "
    "64)\n"
    "  --pause=NS       there, from frees to allocations, 0 to 1000000000\n"
    "                   (default 0)\n"
    "  --lag=L[,L]      what the device does meanwhile, as `replay --help` "
    "says\n"
    "  --repeats=N      rows of each, 1 to 100 (default 1)\n"
    "  --seed=N         without effect: nothing is random\n"
    "  --driver=D       auto, cuda, standin or a path with a / in it "
    "(default:\n"
    "                   what BINADE_DRIVER says)\n"
    "  --json=FILE      write there instead of to standard output\n"
    "  --commit=ID      of what is measured (default: what git says)\n"
    "\n"
    "Each thread has two streams and one block. In a round it queues the "
    "lag's\n"
    "work on the stream that has the block, frees the block there and "
    "allocates\n"
    "for the other stream at once. Prints a JSON object for each row:\n"
    "wait       the limit is full, so that the other stream gets what was "
    "freed;\n"
    "           the allocation may wait, and has failed if it returns "
    "nothing.\n"
    "poll       the same by binade_try_alloc(), called again for a second;\n"
    "           of Binade's subjects only.\n"
    "unlimited  without a limit, and with several blocks that are freed and\n"
    "           allocated together: what is reserved in the end, and live.\n"
    "Times are of rounds, from the free to the allocation: mean, median, p99,\n"
    "and these divided by how long the work takes once it is queued, which is\n"
    "measured before (\"lags\"; none where that is below 5 us). Several "
    "threads\n"
    "also get what others freed: of them only the mean says how long memory\n"
    "waits.\n"
    "bench/tables/replay_table.py makes tables of them, \"reuse\".\n"
    "\n"
    "exit status: 0 all well; 1 a subject could not be run; 2 bad argument\n";

static struct {
    uint64_t size_bytes;
    uint64_t limit_bytes;
    uint64_t between_ns;
    uint64_t pause_ns;
    uint32_t threads;
    uint32_t pairs;
    uint32_t blocks;
    uint32_t repeats;
    bool has_wait;
    bool has_poll;
    bool has_unlimited;
} reuse = {.size_bytes = MIB,
           .between_ns = 1000,
           .threads = 1,
           .pairs = 1000,
           .blocks = 64,
           .repeats = 1};

static bool parse_parts(const char *list)
{
    static const struct study_part parts[] = {
        {"wait", &reuse.has_wait},
        {"poll", &reuse.has_poll},
        {"unlimited", &reuse.has_unlimited},
        {NULL, NULL},
    };
    return study_parse_parts(list, parts);
}

/* One subject with one lag. */
struct bout {
    struct study *study;
    const struct lag_plan *lag;
    const struct subject *named; /* without the lag */
    uint32_t repeat;
};

static uint64_t try_alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    binade_devptr address;
    return binade_try_alloc(subject_binade_pool(), size_bytes,
                            bench_device_streams[stream], &address) == BINADE_OK
               ? address
               : 0;
}

/* Of which `replay --help` says so. */
static bool knows_streams(const char *name)
{
    return strcmp(name, "mutex") != 0 && strcmp(name, "pow2-buddy") != 0;
}

static uint64_t default_limit(void)
{
    uint64_t least = reuse.threads * reuse.size_bytes;
    return (least + LIMIT_STEP_BYTES - 1) / LIMIT_STEP_BYTES * LIMIT_STEP_BYTES;
}

static struct relay_job limited_job(const struct bout *bout)
{
    return (struct relay_job){
        .thread_count = reuse.threads,
        .rounds = reuse.pairs,
        .blocks = 1,
        .size_bytes = reuse.size_bytes,
        .limit_bytes = reuse.limit_bytes ? reuse.limit_bytes : default_limit(),
        .between_ns = reuse.between_ns,
        .has_work = bout->lag->has_work};
}

static const char *run_job(const struct bout *bout, const struct subject *base,
                           const struct relay_job *job, struct relay_found *out)
{
    const struct subject *subject = subject_lagging(base, bout->lag);
    const struct subject_setup setup = {.thread_count = job->thread_count,
                                        .stream_count =
                                            job->thread_count * RELAY_STREAMS,
                                        .limit_bytes = job->limit_bytes};
    const char *why = study_start_subject(subject, &setup);
    if (why)
        return why;
    why = relay_run(subject, job, out);
    subject->stop();
    return why;
}

/* `lags`: the same by the work's time, where any was left. */
static void put_time(struct study *study, const char *name, double ns,
                     const struct relay_found *found)
{
    char key[24];
    bool is_known = found->took.total > 0;
    bool has_lag = is_known && found->work_ns >= LAG_LEAST_NS;
    (void)snprintf(key, sizeof(key), "%s_ns", name);
    study_real_or_null(study, key, ns, is_known);
    (void)snprintf(key, sizeof(key), "%s_lags", name);
    study_real_or_null(study, key, has_lag ? ns / found->work_ns : 0, has_lag);
}

static void put_times(struct study *study, const struct relay_found *found)
{
    const struct histogram *took = &found->took;
    double total = took->total ? (double)took->total : 1;
    study_real_or_null(study, "work_ns", found->work_ns, found->work_ns > 0);
    put_time(study, "mean", (double)took->sum_ps / 1000 / total, found);
    put_time(study, "median", histogram_quantile_ns(took, 0.5), found);
    put_time(study, "p99", histogram_quantile_ns(took, 0.99), found);
}

static void print_row(const struct bout *bout, const char *part,
                      const struct relay_job *job,
                      const struct relay_found *found)
{
    struct study *study = bout->study;
    const struct study_part_row row = {part, job->thread_count, job->rounds,
                                       bout->repeat};
    study_begin_part(study, "reuse", bout->lag, &row);
    study_number(study, "size_bytes", job->size_bytes);
    study_number(study, "limit_bytes", job->limit_bytes);
    study_number(study, "pause_ns", job->pause_ns);
    study_number(study, "blocks", found->blocks);
    put_times(study, found);
    study_number(study, "asked", found->asked);
    study_number(study, "live_bytes", found->blocks * job->size_bytes);
    study_number(study, "reserved_bytes", found->reserved_bytes);
    study_end_part(study, bout->named, bout->lag, found->failed);
}

static bool run_part(const struct bout *bout, const char *part,
                     const struct subject *base, const struct relay_job *job)
{
    struct relay_found found;
    const char *why = run_job(bout, base, job, &found);
    if (why)
        return study_refuse(bout->study, "reuse", bout->named, bout->lag, why);
    print_row(bout, part, job, &found);
    return true;
}

static bool run_wait(const struct bout *bout)
{
    const struct relay_job job = limited_job(bout);
    return run_part(bout, "wait", bout->named, &job);
}

static bool run_poll(const struct bout *bout)
{
    struct subject polling = *bout->named;
    struct relay_job job = limited_job(bout);
    job.patience_ns = POLL_PATIENCE_NS;
    polling.alloc = try_alloc;
    return run_part(bout, "poll", &polling, &job);
}

static bool run_unlimited(const struct bout *bout)
{
    struct relay_job job = limited_job(bout);
    job.limit_bytes = 0;
    job.blocks = reuse.blocks;
    job.pause_ns = reuse.pause_ns;
    return run_part(bout, "unlimited", bout->named, &job);
}

static bool run_once(const struct bout *bout)
{
    bool is_all = !reuse.has_wait && !reuse.has_poll && !reuse.has_unlimited;
    bool can_poll = subject_is_binade(bout->named->name);
    bool is_well = true;
    if (reuse.has_wait || is_all)
        is_well = run_wait(bout);
    if (is_well && can_poll && (reuse.has_poll || is_all))
        is_well = run_poll(bout);
    if (is_well && (reuse.has_unlimited || is_all))
        is_well = run_unlimited(bout);
    return is_well;
}

static bool run(struct study *study, const struct subject *subject,
                const struct lag_plan *lag)
{
    const struct subject *named =
        subject_named(replay_subjects, subject->name, strlen(subject->name));
    bool is_well = true;
    if (!knows_streams(named->name))
        return study_refuse(study, "reuse", named, lag, "it knows no streams");
    for (uint32_t i = 0; is_well && i < reuse.repeats; i++)
        is_well = run_once(&(struct bout){study, lag, named, i});
    return is_well;
}

int main(int argc, char **argv)
{
    static const struct study_option options[] = {
        {"part", .parse = parse_parts,
         .accepted = "wait, poll, unlimited, each once at most"},
        {"threads", 1, RELAY_THREADS_MAX, .count = &reuse.threads},
        {"pairs", 1, PAIRS_MAX, .count = &reuse.pairs},
        {"size", 1, MIB * MIB, .number = &reuse.size_bytes},
        {"limit", 2 * MIB, MIB * MIB, .number = &reuse.limit_bytes},
        {"between", 0, PAUSE_MAX_NS, .number = &reuse.between_ns},
        {"blocks", 1, BLOCKS_MAX, .count = &reuse.blocks},
        {"pause", 0, PAUSE_MAX_NS, .number = &reuse.pause_ns},
        {"repeats", 1, REPEATS_MAX, .count = &reuse.repeats},
        {.name = NULL},
    };
    struct study study = {.program = "reuse",
                          .help = help,
                          .options = options,
                          .has_lag = true,
                          .run = run,
                          .seed = 1};
    return study_main(&study, argc, argv);
}
