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

#include <moiety/pool.h>

#include "bench/base/device.h"
#include "bench/studies/relay.h"
#include "bench/studies/study.h"
#include "bench/subjects/lagging.h"
#include "bench/subjects/pool.h"

#define MIB (UINT64_C(1) << 20)
#define PAIRS_MAX 10000000U
#define BLOCKS_MAX 4096U
#define PAUSE_MAX_NS 1000000000U
/* How long a thread polls before its block counts as failed. */
#define POLL_PATIENCE_NS UINT64_C(1000000000)
/* Work that takes less is over when the block is freed, or nearly so. */
#define LAG_LEAST_NS 5000

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
    "  --seed=N         without effect: nothing is random\n" STUDY_HELP "\n"
    "Each thread has two streams and one block. In a round it queues the "
    "lag's\n"
    "work on the stream that has the block, frees the block there and "
    "allocates\n"
    "for the other stream at once. Prints a JSON object for each row:\n"
    "wait       the limit is full, so that the other stream gets what was "
    "freed;\n"
    "           the allocation may wait, and has failed if it returns "
    "nothing.\n"
    "poll       the same by MOIETY_ALLOC_NO_WAIT, again for a second;\n"
    "           of Moiety's subjects only.\n"
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
} reuse = {.size_bytes = MIB,
           .between_ns = 1000,
           .threads = 1,
           .pairs = 1000,
           .blocks = 64};

static uint64_t try_alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    static const moiety_alloc_options options = {.struct_size = sizeof options,
                                                 .flags = MOIETY_ALLOC_NO_WAIT};
    moiety_devptr address;
    return moiety_alloc_with(subject_moiety_pool(), size_bytes,
                             bench_device_streams[stream], &options,
                             &address) == MOIETY_OK
               ? address
               : 0;
}

/* Of which `replay --help` says so. */
static const char *refusal(const struct subject *subject)
{
    return strcmp(subject->name, "mutex") == 0 ||
                   strcmp(subject->name, "pow2-buddy") == 0
               ? "it knows no streams"
               : NULL;
}

static uint64_t default_limit(void)
{
    uint64_t least = reuse.threads * reuse.size_bytes;
    return (least + STUDY_LIMIT_STEP_BYTES - 1) / STUDY_LIMIT_STEP_BYTES *
           STUDY_LIMIT_STEP_BYTES;
}

static struct relay_job limited_job(const struct study_bout *bout)
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

static const char *run_job(const struct study_bout *bout,
                           const struct subject *base,
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
static void put_time(const struct study_bout *bout, const char *name, double ns,
                     const struct relay_found *found)
{
    char key[24];
    bool is_known = found->took.total > 0;
    bool has_lag = is_known && found->work_ns >= LAG_LEAST_NS;
    (void)snprintf(key, sizeof(key), "%s_ns", name);
    study_real_or_null(bout, key, ns, is_known);
    (void)snprintf(key, sizeof(key), "%s_lags", name);
    study_real_or_null(bout, key, has_lag ? ns / found->work_ns : 0, has_lag);
}

static void put_times(const struct study_bout *bout,
                      const struct relay_found *found)
{
    const struct histogram *took = &found->took;
    double total = took->total ? (double)took->total : 1;
    study_real_or_null(bout, "work_ns", found->work_ns, found->work_ns > 0);
    put_time(bout, "mean", (double)took->sum_ps / 1000 / total, found);
    put_time(bout, "median", histogram_quantile_ns(took, 0.5), found);
    put_time(bout, "p99", histogram_quantile_ns(took, 0.99), found);
}

static void print_row(const struct study_bout *bout,
                      const struct relay_job *job,
                      const struct relay_found *found)
{
    study_begin_part(bout, job->thread_count, job->rounds);
    study_number(bout, "size_bytes", job->size_bytes);
    study_number(bout, "limit_bytes", job->limit_bytes);
    study_number(bout, "pause_ns", job->pause_ns);
    study_number(bout, "blocks", found->blocks);
    put_times(bout, found);
    study_number(bout, "asked", found->asked);
    study_number(bout, "live_bytes", found->blocks * job->size_bytes);
    study_number(bout, "reserved_bytes", found->reserved_bytes);
    study_end_part(bout, found->failed);
}

static bool run_relay(const struct study_bout *bout, const struct subject *base,
                      const struct relay_job *job)
{
    struct relay_found found;
    const char *why = run_job(bout, base, job, &found);
    if (why)
        return study_refuse(bout, why);
    print_row(bout, job, &found);
    return true;
}

static bool run_wait(const struct study_bout *bout)
{
    const struct relay_job job = limited_job(bout);
    return run_relay(bout, bout->named, &job);
}

static bool run_poll(const struct study_bout *bout)
{
    struct subject polling = *bout->named;
    struct relay_job job = limited_job(bout);
    job.patience_ns = POLL_PATIENCE_NS;
    polling.alloc = try_alloc;
    if (!subject_is_moiety(bout->named->name))
        return true;
    return run_relay(bout, &polling, &job);
}

static bool run_unlimited(const struct study_bout *bout)
{
    struct relay_job job = limited_job(bout);
    job.limit_bytes = 0;
    job.blocks = reuse.blocks;
    job.pause_ns = reuse.pause_ns;
    return run_relay(bout, bout->named, &job);
}

int main(int argc, char **argv)
{
    static const struct study_part parts[] = {{"wait", run_wait},
                                              {"poll", run_poll},
                                              {"unlimited", run_unlimited},
                                              {NULL, NULL}};
    struct study study = {.program = "reuse",
                          .help = help,
                          .has_lag = true,
                          .parts = parts,
                          .refusal = refusal,
                          .repeats = 1,
                          .seed = 1};
    const struct command_option options[] = {
        {"part", .read = study_read_parts, .into = &study,
         .refusal = " is not accepted: wait, poll, unlimited, each once at "
                    "most"},
        {"threads", 1, RELAY_THREADS_MAX, .number32 = &reuse.threads},
        {"pairs", 1, PAIRS_MAX, .number32 = &reuse.pairs},
        {"size", 1, MIB * MIB, .number = &reuse.size_bytes, .is_bytes = true},
        {"limit", 2 * MIB, MIB * MIB, .number = &reuse.limit_bytes,
         .is_bytes = true},
        {"between", 0, PAUSE_MAX_NS, .number = &reuse.between_ns},
        {"blocks", 1, BLOCKS_MAX, .number32 = &reuse.blocks},
        {"pause", 0, PAUSE_MAX_NS, .number = &reuse.pause_ns},
        {"repeats", 1, STUDY_REPEATS_MAX, .number32 = &study.repeats},
        {.name = NULL},
    };
    study.options = options;
    return study_main(&study, argc, argv);
}
