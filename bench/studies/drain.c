/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The time to get back memory that many frees have left, the longest calls of
 * threads that use the pool meanwhile, and the time to grow. --help lists what
 * is printed.
 *
 * It does not show work that uses the freed blocks: their stream is held back by
 * a host function, and only the part streams writes.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <moiety/moiety.h>

#include "bench/base/clock.h"
#include "bench/base/device.h"
#include "bench/base/histogram.h"
#include "bench/base/json.h"
#include "bench/base/random.h"
#include "bench/base/team.h"
#include "bench/studies/mapped/must.h"
#include "bench/studies/study.h"
#include "bench/subjects/pool.h"
#include "pool/driver/driver_table.h"

#define MIB (UINT64_C(1) << 20)
#define FREED_BYTES ((size_t)4096)
#define STREAM_BYTES ((size_t)64 << 10)
#define PLACES 64U
#define LEAST_BYTES ((size_t)256)
#define DOUBLINGS 11U
#define WAIT_MS 60000U

static const char help[] =
    "usage: drain [OPTION]...\n"
    "  --memory=M   fixed (subject moiety), mapped (moiety-mapped) or both\n"
    "               (default)\n"
    "  --part=P[,P] trim, drain, streams, growth (default: all)\n"
    "  --blocks=N   that are freed, 1 to 4000000 (default 1000000)\n"
    "  --threads=N  that use the pool meanwhile, 1 to 255 (default 8)\n"
    "  --quiet=MS   for which they do so before and afterwards, 1 to 60000\n"
    "               (default 1000)\n"
    "  --streams=N  1 to 65536 (default 4096)\n"
    "  --mib=N      of growth, even, 2 to 65536 (default 1024)\n"
    "  --repeats=N  rows of each, 1 to 100 (default 1)\n" STUDY_HELP "\n"
    "Prints a JSON object for each row:\n"
    "trim     blocks of 4 KiB are freed on a stream whose work goes on, and "
    "ends;\n"
    "         then the pool is synchronized and trimmed, twice: ms of each.\n"
    "         Pattern \"all\": the blocks are neighbours; \"apart\": between "
    "each two\n"
    "         a live one is. In each phase, of the calls of the threads, "
    "which\n"
    "         replace blocks of 256 B to 256 KiB on streams of their own: "
    "p99.9\n"
    "         and the longest, to within 0.8 %; a call that lasts into other\n"
    "         phases counts in each.\n"
    "drain    the same frees in a pool whose limit they fill: ms of an "
    "allocation\n"
    "         of half the limit on another stream\n"
    "streams  each has a block of 64 KiB, all at a time or one after the "
    "other,\n"
    "         three times; then a trim: bytes that are reserved, and ms\n"
    "growth   ms of reserving so much, also beside eight times as much, of a\n"
    "         block of that, and of blocks of 2 MiB; ms of the trim\n"
    "On fewer processors than threads the longest call is the scheduler's.\n"
    "\n"
    "exit status: 0 all well; 1 it could not be run; 2 bad argument\n";

/* Of the part trim, in their order. */
enum phase { WARM, QUIET, FREEING, DRAINING, TRIMMING, AFTER, OVER };
static const char *const phase_names[OVER] = {"warm",     "quiet",    "freeing",
                                              "draining", "trimming", "after"};

struct worker {
    struct histogram calls[OVER];
    uint32_t number; /* its stream; the one behind the last trims */
};

static struct {
    const struct moietyi_driver *driver;
    const struct study_bout *bout;
    moiety_pool *pool;
    struct worker *workers;
    size_t
        step; /* of the blocks in their order, each or every second is freed */
    uint64_t blocks;
    uint64_t mib;
    uint32_t threads;
    uint32_t streams;
    uint32_t quiet_ms;
    _Atomic uint32_t phase; /* Edge: none; relaxed: what a call counts as */
} study = {.blocks = 1000000,
           .mib = 1024,
           .threads = 8,
           .streams = 4096,
           .quiet_ms = 1000};

static double ms_since(uint64_t begun_ns)
{
    return (double)(clock_now_ns() - begun_ns) / 1e6;
}

static void pause_ms(uint32_t ms)
{
    const struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}

static void *allocate_host(size_t count, size_t size_bytes)
{
    void *memory = calloc(count, size_bytes);
    must_hold(memory, "there is host memory");
    return memory;
}

/* False: there is no pool, and a row says why. */
static bool start(const struct study_bout *bout, uint32_t stream_count,
                  uint64_t limit_bytes)
{
    const struct subject_setup setup = {.thread_count = stream_count,
                                        .stream_count = stream_count,
                                        .limit_bytes = limit_bytes,
                                        .needs_streams = true};
    const char *why = study_start_subject(bout->subject, &setup);
    if (why)
        return study_refuse(bout, why);
    must_be(moietyi_driver_open(&study.driver));
    study.pool = subject_moiety_pool();
    study.bout = bout;
    return true;
}

static void begin_row(const char *key, const char *text)
{
    study_begin_row(study.bout);
    json_text_field(study.bout->study->rows, "part", study.bout->part);
    study_number(study.bout, "repeat", study.bout->repeat);
    json_text_field(study.bout->study->rows, key, text);
}

static void put(const char *key, uint64_t number)
{
    study_number(study.bout, key, number);
}

static void put_real(const char *key, double number)
{
    study_real(study.bout, key, number);
}

static moiety_pool_stats stats_now(void)
{
    moiety_pool_stats stats = {.struct_size = (uint32_t)sizeof(stats)};
    must_be(moiety_pool_get_stats(study.pool, &stats));
    return stats;
}

static void put_stats(void)
{
    moiety_pool_stats stats = stats_now();
    put("reserved_bytes", stats.reserved_bytes_current);
    put("peak_reserved_bytes", stats.reserved_bytes_peak);
    put("retiring_bytes", stats.retiring_bytes);
    put("segments", stats.segment_current);
}

/* --- frees behind work --- */

static enum phase current_phase(void)
{
    /* relaxed: as declared. */
    return (enum phase)atomic_load_explicit(&study.phase, memory_order_relaxed);
}

static void enter(enum phase next)
{
    /* relaxed: as declared. */
    atomic_store_explicit(&study.phase, next, memory_order_relaxed);
}

static void hold(void *let_go)
{
    /* seq_cst: no part of what is timed. */
    while (!atomic_load((atomic_bool *)let_go))
        pause_ms(1);
}

static void allocate_blocks(moiety_devptr *blocks, size_t count,
                            moiety_stream stream)
{
    uint64_t begun_ns = clock_now_ns();
    must_be(moiety_alloc_batch(study.pool, FREED_BYTES, stream, count, blocks));
    put("blocks", study.blocks);
    put_real("allocation_ns", ms_since(begun_ns) * 1e6 / (double)count);
}

/* Each waits for an event: the stream's work ends when all are freed. */
static void free_behind_work(const moiety_devptr *blocks, size_t count,
                             moiety_stream stream)
{
    atomic_bool let_go = false;
    MUST(cuLaunchHostFunc, (stream, hold, &let_go));
    enter(FREEING);
    uint64_t begun_ns = clock_now_ns();
    for (size_t i = 0; i < count; i += study.step)
        must_be(moiety_free(study.pool, blocks[i], stream));
    put_real("free_ns", ms_since(begun_ns) * 1e6 / (double)study.blocks);
    put_stats();
    atomic_store(&let_go, true); /* seq_cst: as in hold() */
    MUST(cuStreamSynchronize, (stream));
}

/* --- trim --- */

/* Returns the phase in which the next call counts, too: no phase goes by between
 * two calls. */
static enum phase note(struct worker *worker, enum phase begun,
                       uint64_t begun_ns)
{
    uint64_t ps = (clock_now_ns() - begun_ns) * 1000;
    enum phase ended = current_phase();
    for (enum phase at = begun; at <= ended && at < OVER; at++)
        histogram_add(&worker->calls[at], ps);
    return ended;
}

static void replace_blocks(struct worker *worker)
{
    uint64_t random = random_start(1, worker->number);
    moiety_stream stream = bench_device_streams[worker->number];
    moiety_devptr blocks[PLACES] = {0};
    enum phase begun = WARM;
    while (begun != OVER) {
        moiety_devptr *block = &blocks[random_below(&random, PLACES)];
        size_t size_bytes = LEAST_BYTES << random_below(&random, DOUBLINGS);
        uint64_t begun_ns = clock_now_ns();
        must_be(moiety_free(study.pool, *block, stream));
        begun = note(worker, begun, begun_ns);
        begun_ns = clock_now_ns();
        must_be(moiety_alloc(study.pool, size_bytes, stream, block));
        begun = note(worker, begun, begun_ns);
    }
    must_be(moiety_free_batch(study.pool, blocks, PLACES, stream, NULL));
}

static void drain_and_trim(void)
{
    uint64_t given_back_bytes;
    enter(DRAINING);
    uint64_t begun_ns = clock_now_ns();
    must_be(moiety_pool_synchronize(study.pool, WAIT_MS));
    put_real("synchronize_ms", ms_since(begun_ns));
    enter(TRIMMING);
    begun_ns = clock_now_ns();
    must_be(moiety_pool_trim(study.pool, 0, &given_back_bytes));
    put_real("trim_ms", ms_since(begun_ns));
    begun_ns = clock_now_ns();
    must_be(moiety_pool_trim(study.pool, 0, NULL));
    put_real("second_trim_ms", ms_since(begun_ns));
    enter(AFTER);
    put("given_back_bytes", given_back_bytes);
    put("trimmed_reserved_bytes", stats_now().reserved_bytes_current);
}

static void free_and_trim(moiety_stream stream)
{
    size_t count = study.blocks * study.step;
    moiety_devptr *blocks = allocate_host(count, sizeof(*blocks));
    begin_row("pattern", study.step == 1 ? "all" : "apart");
    put("threads", study.threads);
    allocate_blocks(blocks, count, stream);
    pause_ms(study.quiet_ms); /* until pools and caches are warm */
    enter(QUIET);
    pause_ms(study.quiet_ms);
    free_behind_work(blocks, count, stream);
    drain_and_trim();
    pause_ms(study.quiet_ms);
    enter(OVER);
    for (size_t i = 1; study.step > 1 && i < count; i += study.step)
        must_be(moiety_free(study.pool, blocks[i], stream));
    free(blocks);
}

static void *run_thread(void *argument)
{
    struct worker *worker = argument;
    must_hold(bench_device_attach(worker->number), "a thread can use it");
    if (worker->number < study.threads)
        replace_blocks(worker);
    else
        free_and_trim(bench_device_streams[worker->number]);
    return NULL;
}

static void put_phase(enum phase phase)
{
    static const struct histogram none;
    static struct histogram all;
    const char *name = phase_names[phase];
    char key[32];
    all = none;
    for (uint32_t i = 0; i < study.threads; i++)
        histogram_merge(&all, &study.workers[i].calls[phase]);
    (void)snprintf(key, sizeof(key), "%s_calls", name);
    put(key, all.total);
    (void)snprintf(key, sizeof(key), "%s_p999_us", name);
    put_real(key, histogram_quantile_ns(&all, 0.999) / 1e3);
    (void)snprintf(key, sizeof(key), "%s_longest_us", name);
    put_real(key, histogram_quantile_ns(&all, 1) / 1e3);
}

static bool run_pattern(const struct study_bout *bout, size_t step)
{
    uint32_t count = study.threads + 1;
    if (!start(bout, count, 0))
        return false;
    study.step = step;
    study.workers = allocate_host(count, sizeof(*study.workers));
    for (uint32_t i = 0; i < count; i++)
        study.workers[i].number = i;
    enter(WARM);
    team_run(run_thread, study.workers, sizeof(*study.workers), count);
    for (enum phase phase = QUIET; phase < OVER; phase++)
        put_phase(phase);
    study_end_row(bout);
    free(study.workers);
    bout->subject->stop();
    return true;
}

static bool run_trim(const struct study_bout *bout)
{
    return run_pattern(bout, 1) && run_pattern(bout, 2);
}

/* --- drain --- */

static bool run_drain(const struct study_bout *bout)
{
    moiety_devptr large = 0;
    uint64_t steps = study.blocks * FREED_BYTES / STUDY_LIMIT_STEP_BYTES + 2;
    uint64_t limit_bytes = steps * STUDY_LIMIT_STEP_BYTES;
    if (!start(bout, 2, limit_bytes))
        return false;
    moiety_stream other = bench_device_streams[1];
    moiety_devptr *blocks = allocate_host(study.blocks, sizeof(*blocks));
    study.step = 1;
    begin_row("pattern", "all");
    put("limit_bytes", limit_bytes);
    allocate_blocks(blocks, study.blocks, bench_device_streams[0]);
    free_behind_work(blocks, study.blocks, bench_device_streams[0]);
    uint64_t begun_ns = clock_now_ns();
    moiety_status status =
        moiety_alloc(study.pool, limit_bytes / 2, other, &large);
    put_real("ms", ms_since(begun_ns));
    put("failed", status != MOIETY_OK);
    study_end_row(bout);
    must_be(moiety_free(study.pool, large, other));
    free(blocks);
    bout->subject->stop();
    return true;
}

/* --- streams --- */

static void use_streams(CUstream *streams, moiety_devptr *blocks,
                        bool is_one_at_a_time)
{
    for (uint32_t i = 0; i < study.streams; i++) {
        must_be(moiety_alloc(study.pool, STREAM_BYTES, streams[i], &blocks[i]));
        MUST(cuMemsetD32Async, (blocks[i], i, STREAM_BYTES / 4, streams[i]));
        if (is_one_at_a_time)
            must_be(moiety_free(study.pool, blocks[i], streams[i]));
    }
    for (uint32_t i = 0; i < study.streams && !is_one_at_a_time; i++)
        must_be(moiety_free(study.pool, blocks[i], streams[i]));
}

static bool run_way(const struct study_bout *bout, bool is_one_at_a_time)
{
    static const char *const steps[] = {"first", "second", "third", "trim"};
    if (!start(bout, 1, 0))
        return false;
    CUstream *streams = allocate_host(study.streams, sizeof(CUstream));
    moiety_devptr *blocks = allocate_host(study.streams, sizeof(*blocks));
    for (uint32_t i = 0; i < study.streams; i++)
        MUST(cuStreamCreate, (&streams[i], CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t begun_ns = clock_now_ns();
        if (i < 3)
            use_streams(streams, blocks, is_one_at_a_time);
        else
            must_be(moiety_pool_trim(study.pool, 0, NULL));
        double ms = ms_since(begun_ns);
        MUST(cuCtxSynchronize, ());
        begin_row("way", is_one_at_a_time ? "one at a time" : "all at a time");
        json_text_field(bout->study->rows, "step", steps[i]);
        put("streams", study.streams);
        put("block_bytes", STREAM_BYTES);
        put_real("ms", ms);
        put_stats();
        study_end_row(bout);
    }
    for (uint32_t i = 0; i < study.streams; i++) {
        must_be(moiety_pool_retire_stream(study.pool, streams[i]));
        MUST(cuStreamDestroy, (streams[i]));
    }
    free(blocks);
    free(streams);
    bout->subject->stop();
    return true;
}

static bool run_streams(const struct study_bout *bout)
{
    return run_way(bout, false) && run_way(bout, true);
}

/* --- growth --- */

static uint64_t growth_bytes(void)
{
    return study.mib / 2 * 2 * MIB;
}

/* `block_bytes` 0: it is reserved. */
static bool grow(const struct study_bout *bout, const char *way,
                 uint64_t beside_bytes, uint64_t block_bytes)
{
    uint64_t bytes = growth_bytes();
    size_t count = block_bytes ? bytes / block_bytes : 0;
    if (!start(bout, 1, 0))
        return false;
    moiety_stream stream = bench_device_streams[0];
    moiety_devptr *blocks = allocate_host(count + 1, sizeof(*blocks));
    if (beside_bytes)
        must_be(moiety_pool_reserve(study.pool, beside_bytes));
    uint64_t begun_ns = clock_now_ns();
    if (!block_bytes)
        must_be(moiety_pool_reserve(study.pool, beside_bytes + bytes));
    for (size_t i = 0; i < count; i++)
        must_be(moiety_alloc(study.pool, block_bytes, stream, &blocks[i]));
    double ms = ms_since(begun_ns);
    begin_row("way", way);
    put("bytes", bytes);
    put_real("ms", ms);
    put_stats();
    must_be(moiety_free_batch(study.pool, blocks, count, stream, NULL));
    begun_ns = clock_now_ns();
    must_be(moiety_pool_trim(study.pool, 0, NULL));
    put_real("trim_ms", ms_since(begun_ns));
    study_end_row(bout);
    free(blocks);
    bout->subject->stop();
    return true;
}

static bool run_growth(const struct study_bout *bout)
{
    uint64_t bytes = growth_bytes();
    return grow(bout, "reserve", 0, 0) &&
           grow(bout, "reserve beside 8 times as much", 8 * bytes, 0) &&
           grow(bout, "one block", 0, bytes) &&
           grow(bout, "blocks of 2 MiB", 0, 2 * MIB);
}

int main(int argc, char **argv)
{
    static const struct study_part parts[] = {{"trim", run_trim},
                                              {"drain", run_drain},
                                              {"streams", run_streams},
                                              {"growth", run_growth},
                                              {NULL, NULL}};
    struct study program = {.program = "drain",
                            .help = help,
                            .default_subjects = "moiety,moiety-mapped",
                            .parts = parts,
                            .refusal = study_refuse_others,
                            .repeats = 1,
                            .seed = 1};
    const struct command_option options[] = {
        {"memory", .read = study_read_memory, .into = &program.default_subjects,
         .refusal = " is not accepted: fixed, mapped or both"},
        {"part", .read = study_read_parts, .into = &program,
         .refusal = " is not accepted: trim, drain, streams, growth, each once "
                    "at most"},
        {"blocks", 1, 4000000, .number = &study.blocks},
        {"threads", 1, 255, .number32 = &study.threads},
        {"quiet", 1, 60000, .number32 = &study.quiet_ms},
        {"streams", 1, 65536, .number32 = &study.streams},
        {"mib", 2, 65536, .number = &study.mib},
        {"repeats", 1, STUDY_REPEATS_MAX, .number32 = &program.repeats},
        {.name = NULL},
    };
    program.options = options;
    return study_main(&program, argc, argv);
}
