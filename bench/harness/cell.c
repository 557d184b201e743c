/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The threads of a cell live as long as it does, and wait at a gate between
 * repetitions; the calling thread opens it, sleeps, and adds up. What is
 * written in between is ordered by the gate alone.
 */
#define _GNU_SOURCE
#include "bench/harness/cell.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/base/clock.h"
#include "bench/base/processor.h"

enum mode {
    MODE_WARM_UP,
    MODE_BATCHES, /* each batch is timed */
    MODE_CALLS,   /* each call is timed */
    MODE_QUIT,
};

#define BATCH_REPETITIONS 5U
#define CALL_REPETITIONS 2U
#define REPETITIONS (1 + BATCH_REPETITIONS + CALL_REPETITIONS)
/* Tries for each repetition that is wanted. */
#define TRIES 3U

/* From the opening of the gate to the start, so that all start together. */
#define START_DELAY_NS 100000U

struct run {
    const struct plan_cell *cell;
    const struct subject *subject;
    const struct pace *pace;
    struct histogram *batches; /* of all threads and repetitions that count */
    struct histogram *calls;
    uint64_t repetition_ns;
    uint64_t start_ns;
    uint64_t deadline_ns;
    uint64_t ops;
    uint64_t busy_ns;
    enum mode mode;
    pthread_barrier_t gate;
};

struct seat {
    struct worker worker;
    struct run *run;
    struct histogram *batches;
    struct histogram *calls;
    pthread_t thread;
    uint64_t ops; /* of this repetition */
    uint64_t busy_ns;
    bool is_attached;
    bool is_pinned;
    bool is_preempted;
};

/* The least of many: what every reading costs, whatever else happens. */
static uint64_t clock_cost_ns(void)
{
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < 100; i++) {
        uint64_t start_ns = clock_now_ns();
        uint64_t spent_ns = clock_now_ns() - start_ns;
        if (spent_ns < least_ns)
            least_ns = spent_ns;
    }
    return least_ns;
}

static long preemptions(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : -1;
}

static void run_batches(struct seat *seat)
{
    const struct run *run = seat->run;
    struct worker *worker = &seat->worker;
    uint64_t now_ns = clock_now_ns();
    do {
        uint64_t start_ns = now_ns;
        worker->queue_ns = 0;
        uint32_t ops = run->cell->workload->batch(worker);
        now_ns = clock_now_ns();
        if (ops == 0)
            continue;
        uint64_t spent_ns = now_ns - start_ns;
        uint64_t other_ns = worker->clock_ns + worker->queue_ns;
        spent_ns -= spent_ns < other_ns ? spent_ns : other_ns;
        seat->ops += ops;
        seat->busy_ns += spent_ns;
        if (run->mode == MODE_BATCHES)
            histogram_add(seat->batches, spent_ns * 1000 / ops);
    } while (now_ns < run->deadline_ns && !worker->is_out_of_memory);
}

static void run_repetition(struct seat *seat)
{
    const struct run *run = seat->run;
    seat->ops = 0;
    seat->busy_ns = 0;
    *seat->batches = (struct histogram){0};
    *seat->calls = (struct histogram){0};
    seat->worker.deadline_ns = run->deadline_ns;
    while (clock_now_ns() < run->start_ns) {
    }
    long before = preemptions();
    seat->worker.calls = run->mode == MODE_CALLS ? seat->calls : NULL;
    run_batches(seat);
    seat->worker.calls = NULL;
    seat->is_preempted = preemptions() != before;
}

static void *work(void *argument)
{
    struct seat *seat = argument;
    struct run *run = seat->run;
    const struct workload *workload = run->cell->workload;
    struct worker *worker = &seat->worker;
    seat->is_pinned = processor_pin(worker->index);
    seat->is_attached =
        !worker->subject->attach || worker->subject->attach(worker->index);
    worker->clock_ns = clock_cost_ns();
    if (seat->is_attached && !workload->start(worker))
        worker->is_out_of_memory = true;
    for (;;) {
        (void)pthread_barrier_wait(&run->gate);
        (void)pthread_barrier_wait(&run->gate);
        if (run->mode == MODE_QUIT)
            break;
        run_repetition(seat);
    }
    if (seat->is_attached)
        workload->finish(worker);
    return NULL;
}

static const char *trouble(const struct seat *seats, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (!seats[i].is_attached)
            return "the subject refuses a thread";
        if (seats[i].worker.is_out_of_memory)
            return "out of memory";
    }
    return NULL;
}

static void open_gate(struct run *run, enum mode mode)
{
    run->mode = mode;
    run->start_ns = clock_now_ns() + START_DELAY_NS;
    run->deadline_ns = run->start_ns + run->repetition_ns;
    (void)pthread_barrier_wait(&run->gate);
}

static bool is_preempted(const struct seat *seats, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (seats[i].is_preempted)
            return true;
    return false;
}

static void add_up(struct run *run, const struct seat *seats)
{
    for (unsigned i = 0; i < run->cell->thread_count; i++) {
        histogram_merge(run->batches, seats[i].batches);
        histogram_merge(run->calls, seats[i].calls);
        if (run->mode == MODE_BATCHES) {
            run->ops += seats[i].ops;
            run->busy_ns += seats[i].busy_ns;
        }
    }
}

/* `wanted` repetitions that count: undisturbed ones, and when there were too
 * few of these after so many tries, or in time, whatever comes. */
static const char *repeat(struct run *run, const struct seat *seats,
                          enum mode mode, uint32_t wanted,
                          struct measurement *out)
{
    unsigned count = run->cell->thread_count;
    uint32_t tries = wanted * TRIES;
    while (wanted > 0) {
        open_gate(run, mode);
        (void)pthread_barrier_wait(&run->gate);
        const char *why = trouble(seats, count);
        if (why)
            return why;
        bool is_disturbed = is_preempted(seats, count);
        if (clock_now_ns() >= run->pace->deadline_ns)
            tries = wanted;
        out->discarded += is_disturbed && tries > wanted;
        if (!is_disturbed || tries <= wanted) {
            add_up(run, seats);
            out->is_clean &= !is_disturbed;
            out->kept++;
            wanted--;
        }
        tries--;
    }
    return NULL;
}

/* The batches, and what the subject's cache did meanwhile, also in repetitions
 * that do not count. */
static const char *repeat_batches(struct run *run, const struct seat *seats,
                                  struct measurement *out)
{
    uint64_t hits[2] = {0};
    uint64_t misses[2] = {0};
    void (*count)(uint64_t *, uint64_t *) = run->subject->count;
    if (count)
        count(&hits[0], &misses[0]);
    const char *why = repeat(run, seats, MODE_BATCHES, BATCH_REPETITIONS, out);
    if (count)
        count(&hits[1], &misses[1]);
    uint64_t hit_count = hits[1] - hits[0];
    uint64_t all_count = hit_count + misses[1] - misses[0];
    out->cache_hit_rate =
        all_count > 0 ? (double)hit_count / (double)all_count : -1;
    return why;
}

static const char *run_all(struct run *run, const struct seat *seats,
                           struct measurement *out)
{
    const char *why = trouble(seats, run->cell->thread_count);
    struct measurement ignored = {0};
    if (!why)
        why = repeat(run, seats, MODE_WARM_UP, 1, &ignored);
    if (!why)
        why = repeat_batches(run, seats, out);
    if (!why)
        why = repeat(run, seats, MODE_CALLS, CALL_REPETITIONS, out);
    if (!why && run->ops == 0)
        why = "not one operation was finished";
    return why;
}

/* Some threads that wait for the others cannot be told that these do not come,
 * so the process ends. */
static void create_thread(struct seat *seat)
{
    if (pthread_create(&seat->thread, NULL, work, seat) == 0)
        return;
    (void)fprintf(stderr, "bench: the system gives no thread %u\n",
                  seat->worker.index + 1);
    _exit(1);
}

static void take_seats(struct seat *seats, struct run *run, void *shared,
                       uint64_t seed)
{
    unsigned count = run->cell->thread_count;
    for (unsigned i = 0; i < count; i++) {
        seats[i].run = run;
        seats[i].worker = (struct worker){
            .subject = run->subject,
            .shared = shared,
            .random = random_start(seed, i),
            .size_bytes = run->cell->size_bytes,
            .block_count = workload_blocks(run->cell->workload,
                                           run->cell->size_bytes, count),
            .index = i,
            .thread_count = count,
            .stream = i % run->cell->stream_count,
        };
    }
    for (unsigned i = 0; i < count; i++)
        create_thread(&seats[i]);
    (void)pthread_barrier_wait(&run->gate);
}

static void leave_seats(struct seat *seats, struct run *run,
                        struct measurement *out)
{
    open_gate(run, MODE_QUIT);
    for (unsigned i = 0; i < run->cell->thread_count; i++) {
        (void)pthread_join(seats[i].thread, NULL);
        out->is_pinned &= seats[i].is_pinned;
    }
}

static void fill(const struct run *run, struct measurement *out)
{
    out->op_median = histogram_quantile_ns(run->batches, 0.5);
    out->op_p99 = histogram_quantile_ns(run->batches, 0.99);
    out->op_p999 = histogram_quantile_ns(run->batches, 0.999);
    out->call_p99 = histogram_quantile_ns(run->calls, 0.99);
    out->call_p999 = histogram_quantile_ns(run->calls, 0.999);
    out->op_mean = (double)run->busy_ns / (double)run->ops;
    out->ops = run->ops;
}

static const char *measure_with(struct run *run, struct seat *seats,
                                uint64_t seed, struct measurement *out)
{
    const struct workload *workload = run->cell->workload;
    unsigned count = run->cell->thread_count;
    void *shared = workload->begin ? workload->begin(count) : NULL;
    if (workload->begin && !shared)
        return "no host memory";
    (void)pthread_barrier_init(&run->gate, NULL, count + 1);
    take_seats(seats, run, shared, seed);
    const char *why = run_all(run, seats, out);
    leave_seats(seats, run, out);
    (void)pthread_barrier_destroy(&run->gate);
    if (workload->end)
        workload->end(shared);
    if (!why)
        fill(run, out);
    return why;
}

const char *cell_measure(const struct plan_cell *cell,
                         const struct subject *subject, uint64_t seed,
                         const struct pace *pace, struct measurement *out)
{
    unsigned count = cell->thread_count;
    struct run run = {.cell = cell,
                      .subject = subject,
                      .pace = pace,
                      .repetition_ns = pace->cell_us * 1000 / REPETITIONS};
    struct seat *seats = calloc(count, sizeof(*seats));
    struct histogram *histograms =
        calloc(2 * (size_t)count + 2, sizeof(*histograms));
    const char *why = "no host memory";
    *out = (struct measurement){
        .cell_us = pace->cell_us, .is_clean = true, .is_pinned = true};
    if (seats && histograms) {
        run.batches = &histograms[0];
        run.calls = &histograms[1];
        for (unsigned i = 0; i < count; i++) {
            seats[i].batches = &histograms[2 + 2 * (size_t)i];
            seats[i].calls = &histograms[3 + 2 * (size_t)i];
        }
        why = measure_with(&run, seats, seed, out);
    }
    free(histograms);
    free(seats);
    return why;
}
