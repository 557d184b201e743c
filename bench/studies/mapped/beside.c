/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What threads pay that use a pool of mapped memory while another one makes its
 * pieces move all the time. --help says what is printed.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <moiety/moiety.h>

#include "bench/base/clock.h"
#include "bench/base/command_line.h"
#include "bench/base/device.h"
#include "bench/base/histogram.h"
#include "bench/base/random.h"
#include "bench/base/team.h"

#define MIB (UINT64_C(1) << 20)
#define WORKERS_MAX 256U
#define PLACES 64U
#define SMALL_ORDER_LEAST 8U /* 256 B to 64 KiB */
#define SMALL_ORDERS 8U
#define LARGE_ORDER_LEAST 20U /* 1 to 64 MiB */
#define LARGE_ORDERS 6U
#define LARGE_PLACES 24U
/* Of the mover's, before the others begin: pieces move from then on. */
#define FIRST_ROUNDS 256U
/* What the mover has live is about two thirds of it. */
#define LIMIT_BYTES (512 * MIB)

static const char help[] =
    "usage: beside [--threads=N] [--pairs=N] [--driver=D]\n"
    "  --threads=N  that work, each on a stream of its own, 1 to 256 (default\n"
    "               16)\n"
    "  --pairs=N    of each, 1 to 10000000 (default 200000)\n"
    "  --driver=D   auto, cuda, standin or a path with a / in it (default:\n"
    "               what MOIETY_DRIVER says)\n"
    "\n"
    "Each thread frees one of 64 blocks of 256 B to 64 KiB and allocates\n"
    "another. Prints, as JSON Lines, what such a pair takes in ns (median, "
    "p99,\n"
    "p99.9, most), alone and beside a thread that replaces blocks of 1 to 64 "
    "MiB\n"
    "in a pool that is too tight for them, so that pieces move: how many, and\n"
    "of how many bytes.\n"
    "\n"
    "exit status: 0 all well; 1 something failed; 2 bad argument\n";

struct worker {
    struct histogram histogram;
    uint32_t number; /* its stream; the one behind the last is the mover */
    bool has_failed;
};

static struct {
    moiety_pool *pool;
    uint32_t worker_count;
    uint64_t pairs;
    bool has_mover;
    /* Edge: none; relaxed: a wish to end, and how many are not over. */
    atomic_uint working;
    atomic_bool
        is_moving; /* Edge: none; relaxed: the mover had its first rounds. */
    struct worker *workers;
} study = {.worker_count = 16, .pairs = 200000};

/* Each doubling as likely as another. */
static size_t size_between(uint64_t *random, unsigned order_least,
                           unsigned orders)
{
    unsigned order = order_least + random_below(random, orders);
    size_t least = (size_t)1 << order;
    return least + random_below(random, (uint32_t)least);
}

static bool replace(moiety_devptr *block, size_t size_bytes,
                    moiety_stream stream)
{
    if (*block && moiety_free(study.pool, *block, stream) != MOIETY_OK)
        return false;
    *block = 0;
    return moiety_alloc(study.pool, size_bytes, stream, block) == MOIETY_OK;
}

static void work(struct worker *worker)
{
    uint64_t random = random_start(0, worker->number);
    moiety_stream stream = bench_device_streams[worker->number];
    moiety_devptr blocks[PLACES] = {0};
    /* relaxed: as declared. */
    while (study.has_mover &&
           !atomic_load_explicit(&study.is_moving, memory_order_relaxed))
        (void)sched_yield();
    for (uint64_t i = 0; i < study.pairs && !worker->has_failed; i++) {
        moiety_devptr *block = &blocks[random_below(&random, PLACES)];
        size_t size_bytes =
            size_between(&random, SMALL_ORDER_LEAST, SMALL_ORDERS);
        uint64_t begun_ns = clock_now_ns();
        worker->has_failed = !replace(block, size_bytes, stream);
        histogram_add(&worker->histogram, (clock_now_ns() - begun_ns) * 1000);
    }
    for (unsigned i = 0; i < PLACES; i++)
        worker->has_failed |=
            moiety_free(study.pool, blocks[i], stream) != MOIETY_OK;
}

/* Until the others are over. What does not fit is left out. */
static void move(struct worker *mover)
{
    uint64_t random = random_start(1, mover->number);
    moiety_stream stream = bench_device_streams[mover->number];
    moiety_devptr blocks[LARGE_PLACES] = {0};
    uint64_t rounds = 0;
    /* relaxed: as declared. */
    while (atomic_load_explicit(&study.working, memory_order_relaxed)) {
        (void)replace(&blocks[random_below(&random, LARGE_PLACES)],
                      size_between(&random, LARGE_ORDER_LEAST, LARGE_ORDERS),
                      stream);
        /* relaxed: as declared. */
        if (++rounds == FIRST_ROUNDS)
            atomic_store_explicit(&study.is_moving, true, memory_order_relaxed);
    }
    for (unsigned i = 0; i < LARGE_PLACES; i++)
        mover->has_failed |=
            moiety_free(study.pool, blocks[i], stream) != MOIETY_OK;
}

static void *run_thread(void *argument)
{
    struct worker *worker = argument;
    (void)bench_device_attach(worker->number);
    if (worker->number == study.worker_count) {
        move(worker);
        return NULL;
    }
    work(worker);
    /* relaxed: as declared. */
    atomic_fetch_sub_explicit(&study.working, 1, memory_order_relaxed);
    return NULL;
}

static bool make_pool(void)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.memory = MOIETY_MEMORY_MAPPED;
    options.limit_bytes = LIMIT_BYTES;
    options.wait_ms = MOIETY_WAIT_NONE;
    return moiety_pool_create(&options, &study.pool) == MOIETY_OK;
}

static void print(const struct histogram *all, const moiety_stats *stats)
{
    (void)printf("{\"kind\":\"beside\",\"threads\":%u,\"has_mover\":%s,"
                 "\"pairs\":%" PRIu64 ",\"moves\":%" PRIu64
                 ",\"moved_bytes\":%" PRIu64,
                 study.worker_count, study.has_mover ? "true" : "false",
                 all->total, stats->mapped_moves, stats->mapped_moved_bytes);
    (void)printf(
        ",\"median_ns\":%.0f,\"p99_ns\":%.0f,\"p999_ns\":%.0f,\"most_ns\":%.0f}"
        "\n",
        histogram_quantile_ns(all, 0.5), histogram_quantile_ns(all, 0.99),
        histogram_quantile_ns(all, 0.999), histogram_quantile_ns(all, 1));
}

static bool measure(bool has_mover)
{
    static struct histogram all;
    moiety_stats stats = {.struct_size = (uint32_t)sizeof(stats)};
    uint32_t count = study.worker_count;
    study.has_mover = has_mover;
    if (!make_pool())
        return false;
    for (uint32_t i = 0; i <= count; i++)
        study.workers[i] = (struct worker){.number = i};
    /* relaxed, both: the threads begin later. */
    atomic_store_explicit(&study.working, count, memory_order_relaxed);
    /* relaxed: as above. */
    atomic_store_explicit(&study.is_moving, false, memory_order_relaxed);
    team_run(run_thread, study.workers, sizeof(*study.workers),
             count + has_mover);
    bool is_well = moiety_pool_stats(study.pool, &stats) == MOIETY_OK;
    all = (struct histogram){0};
    for (uint32_t i = 0; i < count; i++) {
        histogram_merge(&all, &study.workers[i].histogram);
        is_well = is_well && !study.workers[i].has_failed;
    }
    if (is_well)
        print(&all, &stats);
    return moiety_pool_destroy(study.pool, NULL) == MOIETY_OK && is_well;
}

static int run(void)
{
    const char *why = bench_device_start(study.worker_count + 1);
    if (why) {
        (void)fprintf(stderr, "beside: %s\n", why);
        return 1;
    }
    study.workers = calloc(study.worker_count + 1, sizeof(*study.workers));
    bool is_well = study.workers && measure(false) && measure(true);
    if (!is_well)
        (void)fprintf(stderr, "beside: failed; %s\n",
                      moiety_last_error_message());
    free(study.workers);
    bench_device_stop();
    return is_well ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *driver = NULL;
    bool is_help = false;
    const struct command_option options[] = {
        {"threads", 1, WORKERS_MAX, .number32 = &study.worker_count},
        {"pairs", 1, 10000000, .number = &study.pairs},
        {"driver", .text = &driver},
        {"help", .is_given = &is_help},
        {.name = NULL},
    };
    const struct command_line line = {"beside: bad argument", NULL, options,
                                      false};
    if (command_line_read(&line, argc, argv) < 0)
        return 2;
    if (is_help)
        return fputs(help, stdout) < 0;
    return command_line_use_driver(driver) ? run() : 1;
}
