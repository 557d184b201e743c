/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How long threads hold the locks of a pool's heaps. --help lists what is printed.
 *
 * Each hold is timed by two readings of the clock, which the hold has some 20 ns of;
 * and no work of the device uses the blocks.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <moiety/moiety.h>

#include "bench/base/clock.h"
#include "bench/base/device.h"
#include "bench/base/json.h"
#include "bench/base/processor.h"
#include "bench/base/random.h"
#include "bench/base/team.h"
#include "bench/studies/holds.h"
#include "bench/studies/mapped/must.h"
#include "bench/studies/study.h"
#include "bench/subjects/pool.h"
#include "bench/workloads/workload.h"
#include "pool/driver/driver_table.h"

#define FREED_BYTES ((size_t)4096)
#define FREES_APART 64U
#define PRETENDED_NS UINT64_C(1000)
#define PRETENDED_COUNT 32U
#define WAIT_MS 60000U
#define BUSY_MOST 4U
/* A drainer that gets no processor beside the threads goes on alone. */
#define BESIDE_MS_MOST 20000U
#define COUNTS_MAX 8U

static const char help[] =
    "usage: hold [OPTION]...\n"
    "  --memory=M   fixed (subject moiety), mapped (moiety-mapped) or both\n"
    "               (default)\n"
    "  --part=P[,P] noise, mixed, random, drain (default: all)\n"
    "  --threads=N[,N]  1 to 255 each, up to 8 (default 1,4,16,64)\n"
    "  --ms=MS      that threads work for a row, 1 to 60000 (default 2000)\n"
    "  --blocks=N   that are freed, 1 to 4000000 (default 1000000)\n"
    "  --repeats=N  rows of each, 1 to 100 (default 1)\n" STUDY_HELP "\n"
    "Prints a JSON object for each part, number of threads, and kind of "
    "streams:\n"
    "\"own\" of each thread, or \"one\" of all.\n"
    "noise   no locks: holds of 1 us of nothing, so that what is longer is "
    "the\n"
    "        machine's doing\n"
    "mixed   64 live blocks a thread, of 256 B to 2 MiB, replaced at random\n"
    "random  the random benchmark of RMM: up to 4 MiB, up to 16000 MiB live\n"
    "drain   mixed, beside a thread that frees so many blocks of 4 KiB behind\n"
    "        work of another stream, synchronizes the pool, and trims it; the\n"
    "        fields drainer_ are that thread's; drainer_busy says how often\n"
    "        moiety_pool_synchronize() was, which is called 4 times at most.\n"
    "        The others end after 20 s: cut is how many of them did so before\n"
    "        that thread was done\n"
    "\n"
    "holds               of all threads: of locks of heaps, taken and let go "
    "of\n"
    "held_ms             all of them together\n"
    "mean_ns, p999_ns    of them, the second to within 0.8 %\n"
    "longest_us          of them\n"
    "above_10us          how many were longer than 10 us\n"
    "kept_longest_us, kept_above_10us\n"
    "                    of those only in whose batch of 32 or 64 calls the\n"
    "                    thread was not switched involuntarily: the others\n"
    "                    may have waited for a processor\n"
    "quiet_longest_us, quiet_above_10us\n"
    "                    of those only in whose batch it had no page fault\n"
    "                    either, as it has while a pool grows\n"
    "switches, faults    of the threads meanwhile, as the kernel counts them\n"
    "\n"
    "exit status: 0 all well; 1 it could not be run; 2 bad argument\n";

static struct {
    const struct moietyi_driver *driver;
    const struct study_bout *bout;
    uint64_t blocks;
    uint32_t ms;
    uint32_t counts[COUNTS_MAX]; /* of threads, as they were asked for */
    uint32_t given;
    pthread_barrier_t gate;
    atomic_bool is_over; /* Edge: none; relaxed: the part drain is */
} study = {.blocks = 1000000, .ms = 2000};

static const uint32_t default_counts[] = {1, 4, 16, 64};

struct seat {
    const struct workload *workload;
    struct worker worker;
    struct holds holds;
    uint64_t operations;
    uint32_t busy;
    bool is_drainer; /* and has no workload */
    bool has_others; /* until the drainer is done */
    bool is_cut;     /* it was not */
    bool is_well;
};

/* --- a thread --- */

static bool is_drained(void)
{
    /* relaxed: as declared. */
    return atomic_load_explicit(&study.is_over, memory_order_relaxed);
}

static bool goes_on(const struct seat *seat, uint64_t end_ns)
{
    return !seat->worker.is_out_of_memory && clock_now_ns() < end_ns &&
           !is_drained();
}

static void work(struct seat *seat)
{
    struct worker *worker = &seat->worker;
    uint32_t ms = seat->has_others ? BESIDE_MS_MOST : study.ms;
    uint64_t end_ns = clock_now_ns() + ms * UINT64_C(1000000);
    holds_begin(&seat->holds);
    do {
        seat->operations += seat->workload->batch(worker);
        holds_look();
    } while (goes_on(seat, end_ns));
    holds_end();
    seat->is_cut = seat->has_others && !is_drained();
}

static void pause_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

static void wait_to_go_on(void *let_go)
{
    /* seq_cst: no part of what is timed. */
    while (!atomic_load((atomic_bool *)let_go))
        pause_ms(1);
}

/* Each waits for an event: the stream's work ends when all are freed. */
static void free_behind_work(const moiety_devptr *blocks, moiety_stream stream)
{
    atomic_bool let_go = false;
    MUST(cuLaunchHostFunc, (stream, wait_to_go_on, &let_go));
    for (uint64_t i = 0; i < study.blocks; i++) {
        must_be(moiety_free(subject_moiety_pool(), blocks[i], stream));
        if (i % FREES_APART == 0)
            holds_look();
    }
    atomic_store(&let_go, true); /* seq_cst: as in wait_to_go_on() */
    MUST(cuStreamSynchronize, (stream));
}

/* Returns how often the pool was busy: among many threads on few processors it may
 * be. */
static uint32_t synchronize(void)
{
    moiety_status status = MOIETY_E_TIMEOUT;
    uint32_t busy = 0;
    while (status == MOIETY_E_TIMEOUT && busy < BUSY_MOST) {
        status = moiety_pool_synchronize(subject_moiety_pool(), WAIT_MS);
        busy += status == MOIETY_E_TIMEOUT;
    }
    if (status != MOIETY_E_TIMEOUT)
        must_be(status);
    return busy;
}

static void drain(struct seat *seat)
{
    moiety_stream stream = bench_device_streams[seat->worker.stream];
    moiety_devptr *blocks = calloc(study.blocks, sizeof(*blocks));
    must_hold(blocks, "there is host memory");
    must_be(moiety_alloc_batch(subject_moiety_pool(), FREED_BYTES, stream,
                               study.blocks, blocks));
    holds_begin(&seat->holds);
    free_behind_work(blocks, stream);
    holds_look();
    seat->busy = synchronize();
    holds_look();
    must_be(moiety_pool_trim(subject_moiety_pool(), 0, NULL));
    holds_end();
    free(blocks);
    /* relaxed: as declared. */
    atomic_store_explicit(&study.is_over, true, memory_order_relaxed);
}

static void *run_seat(void *argument)
{
    struct seat *seat = argument;
    struct worker *worker = &seat->worker;
    (void)processor_pin(worker->index);
    seat->is_well =
        !worker->subject->attach || worker->subject->attach(worker->index);
    if (seat->is_well && seat->workload)
        seat->is_well = seat->workload->start(worker);
    (void)pthread_barrier_wait(&study.gate);
    if (seat->is_well && seat->is_drainer)
        drain(seat);
    else if (seat->is_well)
        work(seat);
    if (seat->workload)
        seat->workload->finish(worker);
    seat->is_well &= !worker->is_out_of_memory;
    return NULL;
}

/* --- rows --- */

static void put(const char *prefix, const char *key, uint64_t number)
{
    char name[48];
    (void)snprintf(name, sizeof(name), "%s%s", prefix, key);
    study_number(study.bout, name, number);
}

static void put_real(const char *prefix, const char *key, double number)
{
    char name[48];
    (void)snprintf(name, sizeof(name), "%s%s", prefix, key);
    study_real(study.bout, name, number);
}

static void put_holds(const char *prefix, const struct holds *holds)
{
    const struct histogram *times = &holds->times;
    double count = times->total ? (double)times->total : 1;
    put(prefix, "holds", times->total);
    put_real(prefix, "held_ms", (double)times->sum_ps / 1e9);
    put_real(prefix, "mean_ns", (double)times->sum_ps / 1e3 / count);
    put_real(prefix, "p999_ns", histogram_quantile_ns(times, 0.999));
    put_real(prefix, "longest_us", (double)holds->all.longest_ns / 1e3);
    put(prefix, "above_10us", holds->all.long_count);
    put_real(prefix, "kept_longest_us", (double)holds->kept.longest_ns / 1e3);
    put(prefix, "kept_above_10us", holds->kept.long_count);
    put_real(prefix, "quiet_longest_us", (double)holds->quiet.longest_ns / 1e3);
    put(prefix, "quiet_above_10us", holds->quiet.long_count);
    put(prefix, "switches", holds->disturbances.switches);
    put(prefix, "faults", holds->disturbances.faults);
}

static void put_row(const struct seat *seats, uint32_t threads,
                    uint32_t stream_count)
{
    static const struct holds none;
    static struct holds all;
    uint64_t operations = 0;
    uint64_t cut = 0;
    all = none;
    for (uint32_t i = 0; i < threads; i++) {
        holds_add(&all, &seats[i].holds);
        operations += seats[i].operations;
        cut += seats[i].is_cut;
    }
    study_begin_row(study.bout);
    json_text_field(study.bout->study->rows, "part", study.bout->part);
    put("", "repeat", study.bout->repeat);
    put("", "threads", threads);
    json_text_field(study.bout->study->rows, "streams",
                    stream_count == threads ? "own" : "one");
    put("", "operations", operations);
    put_holds("", &all);
    if (seats[threads].is_drainer) {
        put_holds("drainer_", &seats[threads].holds);
        put("drainer_", "busy", seats[threads].busy);
        put("", "cut", cut);
    }
    study_end_row(study.bout);
}

/* --- all threads --- */

static void set_seats(struct seat *seats, const struct workload *workload,
                      uint32_t threads, uint32_t stream_count, bool has_drainer)
{
    const struct subject *subject = study.bout->subject;
    for (uint32_t i = 0; i < threads; i++) {
        seats[i] = (struct seat){
            .workload = workload,
            .has_others = has_drainer,
            .worker = {.subject = subject,
                       .random = random_start(study.bout->study->seed, i),
                       .size_bytes = workload->sizes_bytes[0],
                       .block_count = workload_blocks(
                           workload, workload->sizes_bytes[0], threads),
                       .index = i,
                       .thread_count = threads,
                       .stream = i % stream_count}};
    }
    if (has_drainer) {
        seats[threads] = (struct seat){.is_drainer = true,
                                       .worker = {.subject = subject,
                                                  .index = threads,
                                                  .stream = stream_count}};
    }
}

static bool run_on(const struct workload *workload, uint32_t threads,
                   uint32_t stream_count, bool has_drainer)
{
    uint32_t count = threads + has_drainer;
    const struct subject_setup setup = {.thread_count = count,
                                        .stream_count =
                                            stream_count + has_drainer,
                                        .needs_streams = true};
    const char *why = study_start_subject(study.bout->subject, &setup);
    bool is_well = true;
    if (why)
        return study_refuse(study.bout, why);
    must_be(moietyi_driver_open(&study.driver));
    struct seat *seats = calloc(threads + 1, sizeof(*seats));
    must_hold(seats, "there is host memory");
    set_seats(seats, workload, threads, stream_count, has_drainer);
    (void)pthread_barrier_init(&study.gate, NULL, count);
    /* relaxed: as declared. */
    atomic_store_explicit(&study.is_over, false, memory_order_relaxed);
    team_run(run_seat, seats, sizeof(*seats), count);
    (void)pthread_barrier_destroy(&study.gate);
    for (uint32_t i = 0; i < count; i++)
        is_well &= seats[i].is_well;
    if (is_well)
        put_row(seats, threads, stream_count);
    else
        (void)study_refuse(study.bout, "there is too little memory");
    free(seats);
    study.bout->subject->stop();
    return is_well;
}

static bool run_all(const struct study_bout *bout,
                    const struct workload *workload, bool has_drainer)
{
    const uint32_t *counts = study.given ? study.counts : default_counts;
    size_t count = study.given
                       ? study.given
                       : sizeof(default_counts) / sizeof(default_counts[0]);
    bool is_well = true;
    study.bout = bout;
    for (size_t i = 0; i < count && is_well; i++) {
        is_well = run_on(workload, counts[i], counts[i], has_drainer);
        if (counts[i] > 1 && is_well && workload->sizes_bytes[0] > 1)
            is_well = run_on(workload, counts[i], 1, has_drainer);
    }
    return is_well;
}

static bool noise_start(struct worker *worker)
{
    (void)worker;
    return true;
}

static uint32_t noise_batch(struct worker *worker)
{
    (void)worker;
    for (uint32_t i = 0; i < PRETENDED_COUNT; i++)
        holds_pretend(PRETENDED_NS);
    return PRETENDED_COUNT;
}

static void noise_finish(struct worker *worker)
{
    (void)worker;
}

static bool run_noise(const struct study_bout *bout)
{
    static const struct workload noise = {.name = "noise",
                                          .sizes_bytes = {1},
                                          .block_count = 1,
                                          .start = noise_start,
                                          .batch = noise_batch,
                                          .finish = noise_finish};
    return run_all(bout, &noise, false);
}

static bool run_mixed(const struct study_bout *bout)
{
    return run_all(bout, &workload_mixed, false);
}

static bool run_random(const struct study_bout *bout)
{
    return run_all(bout, &workload_rmm_random, false);
}

static bool run_drain(const struct study_bout *bout)
{
    return run_all(bout, &workload_mixed, true);
}

/* --- options --- */

static bool take_count(const char *text, size_t length, void *into)
{
    char *end;
    (void)into;
    if (study.given == COUNTS_MAX || *text < '0' || *text > '9')
        return false;
    unsigned long count = strtoul(text, &end, 10);
    study.counts[study.given++] = (uint32_t)count;
    return end == text + length && count && count < BENCH_THREADS_MAX;
}

static bool read_counts(const char *list, void *into)
{
    return command_line_each(list, take_count, into);
}

int main(int argc, char **argv)
{
    static const struct study_part parts[] = {{"noise", run_noise},
                                              {"mixed", run_mixed},
                                              {"random", run_random},
                                              {"drain", run_drain},
                                              {NULL, NULL}};
    struct study program = {.program = "hold",
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
         .refusal = " is not accepted: noise, mixed, random, drain, each once "
                    "at most"},
        {"threads", .read = read_counts,
         .refusal = " is not accepted: 1 to 255 each, 8 numbers at most"},
        {"ms", 1, 60000, .number32 = &study.ms},
        {"blocks", 1, 4000000, .number = &study.blocks},
        {"repeats", 1, STUDY_REPEATS_MAX, .number32 = &program.repeats},
        {.name = NULL},
    };
    program.options = options;
    return study_main(&program, argc, argv);
}
