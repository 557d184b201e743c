/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The truth test. Threads allocate blocks, fill each with a word of its own by
 * work on a stream, read them back by later work, and free them as soon as that
 * is queued. Streams are held back at random. If the pool gives a block away
 * before its last reader is done, the reader finds another word.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/truth/kit.h"
#include "tests/truth/worker.h"

#define LOOK_EVERY_US 10000
#define REPORT_EVERY_NS UINT64_C(10000000000)
#define STUCK_NS UINT64_C(120000000000)

static const char usage[] =
    "usage: truth [--threads=N] [--streams=N] [--operations=N] [--seconds=N]\n"
    "             [--seed=N] [--limit=MIB] [--wait=MS] [--handover=0|1]\n"
    "             [--mapped=0|1] [--large=PERCENT] [--moves=N] [--held=US]\n"
    "             [--own=0|1] [--driver=D]\n"
    "  --threads=N     workers (default 16)\n"
    "  --streams=N     streams that all of them use (default 24); each worker\n"
    "                  has two more and its thread's default stream\n"
    "  --operations=N  blocks to allocate, fill, read and free (default\n"
    "                  1000000)\n"
    "  --seconds=N     time after which to stop early; 0: never (default)\n"
    "  --seed=N        of the random numbers (default 1)\n"
    "  --limit=MIB     the pool's memory (default: 16 MiB a thread)\n"
    "  --wait=MS       how long an allocation waits for memory (default 5)\n"
    "  --handover=1    lets the pool make streams wait for each other\n"
    "  --mapped=1      memory that is mapped piece by piece, and moves\n"
    "  --large=PERCENT of blocks that have 2 to 32 MiB (default 0)\n"
    "  --moves=N       once in N steps a worker frees large blocks whose "
    "readers\n"
    "                  are held back, and asks for more than there is, so "
    "that\n"
    "                  their memory moves if it is mapped; 0: never (default)\n"
    "  --held=US       for how long these are held back (default 20000)\n"
    "  --own=0         streams are not noted, and none is freed by its note\n"
    "  --driver=D      auto, cuda, standin or a path with a / in it (default:\n"
    "                  what MOIETY_DRIVER says)\n"
    "exit status: 0 all words right; 1 a wrong word or a wrong answer; 2 bad\n"
    "             argument; 3 no such driver or device; 4 the driver failed\n";

static struct options options = {
    .threads = 16,
    .streams = 24,
    .operations = 1000000,
    .seed = 1,
    .wait_ms = 5,
    .held_us = 20000,
    .is_noted = 1,
};

static const struct argument arguments[] = {
    {"threads", &options.threads, 1, 256, NULL},
    {"streams", &options.streams, 1, 128, NULL},
    {"operations", &options.operations, 1, UINT64_C(1) << 40, NULL},
    {"seconds", &options.seconds, 0, 86400, NULL},
    {"seed", &options.seed, 0, UINT64_MAX, NULL},
    {"limit", &options.limit_mib, 16, UINT64_C(1) << 20, NULL},
    {"wait", &options.wait_ms, 0, 10000, NULL},
    {"handover", &options.hand_over, 0, 1, NULL},
    {"mapped", &options.is_mapped, 0, 1, NULL},
    {"large", &options.large, 0, 100, NULL},
    {"moves", &options.moves, 0, 1000000, NULL},
    {"held", &options.held_us, 1, 1000000, NULL},
    {"own", &options.is_noted, 0, 1, NULL},
    {"driver", NULL, 0, 0, &options.driver},
    {NULL, NULL, 0, 0, NULL},
};

static struct world world;
static struct worker *workers;
static _Atomic uint64_t running;

struct totals {
    uint64_t allocated;
    uint64_t finished;
    uint64_t denied;
    uint64_t streams_retired;
    uint64_t lives;
};

static struct totals add_up(void)
{
    struct totals totals = {0};
    for (uint64_t i = 0; i < options.threads; i++) {
        totals.allocated += atomic_load(&workers[i].allocated);
        totals.finished += atomic_load(&workers[i].finished);
        totals.denied += atomic_load(&workers[i].denied);
        totals.streams_retired += atomic_load(&workers[i].streams_retired);
        totals.lives += atomic_load(&workers[i].lives);
    }
    return totals;
}

static void *run(void *argument)
{
    worker_run(argument);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

/* A pool that waits for ever, or lets its caller do so, ends here. */
static void end_stuck(void)
{
    printf("no block was finished for %" PRIu64 " s\n", STUCK_NS / 1000000000U);
    kit_print_stats(world.pool);
    (void)fflush(NULL);
    _Exit(EXIT_WRONG);
}

/* Until all workers are done. */
static void watch(uint64_t begin_ns)
{
    uint64_t finished = 0;
    uint64_t progress_ns = begin_ns;
    uint64_t report_ns = begin_ns + REPORT_EVERY_NS;
    while (atomic_load(&running)) {
        kit_pause_us(LOOK_EVERY_US);
        uint64_t now_ns = kit_now_ns();
        uint64_t seen = add_up().finished;
        if (seen != finished)
            progress_ns = now_ns;
        finished = seen;
        if (now_ns - progress_ns > STUCK_NS)
            end_stuck();
        if (options.seconds &&
            now_ns - begin_ns > options.seconds * 1000000000U)
            atomic_store(&world.is_stopped, true);
        if (now_ns > report_ns) {
            (void)fprintf(stderr, "%" PRIu64 " operations\n", seen);
            report_ns += REPORT_EVERY_NS;
        }
    }
}

static void work(void)
{
    pthread_t *threads = calloc(options.threads, sizeof(*threads));
    kit_require(threads != NULL, "calloc");
    uint64_t begin_ns = kit_now_ns();
    atomic_store(&running, options.threads);
    for (uint64_t i = 0; i < options.threads; i++)
        kit_require(pthread_create(&threads[i], NULL, run, &workers[i]) == 0,
                    "pthread_create");
    watch(begin_ns);
    for (uint64_t i = 0; i < options.threads; i++)
        (void)pthread_join(threads[i], NULL);
    worker_empty_mailbox(&workers[0]);
    double seconds = (double)(kit_now_ns() - begin_ns) * 1e-9;
    struct totals totals = add_up();
    printf("%.1f s, %.0f operations/s; %" PRIu64 " threads lived, %" PRIu64
           " streams were retired, %" PRIu64 " allocations found no memory\n",
           seconds, (double)totals.finished / seconds, totals.lives,
           totals.streams_retired, totals.denied);
    free(threads);
}

static void report_wrong(void)
{
    struct history **histories = calloc(options.threads, sizeof(*histories));
    kit_require(histories != NULL, "calloc");
    for (uint64_t i = 0; i < options.threads; i++)
        histories[i] = &workers[i].history;
    for (uint32_t i = 0; i < world.wrong_count; i++) {
        const struct wrong *wrong = &world.wrong[i];
        printf("WRONG: at 0x%llx: expected %08" PRIx32 ", found %08" PRIx32
               ", read on stream %p, %" PRIu64 " words of the copy\n",
               wrong->address, wrong->expected, wrong->found,
               (void *)wrong->stream, wrong->wrong_words);
        history_print(histories, (uint32_t)options.threads, wrong->address);
    }
    free(histories);
}

/* At rest the pool's own numbers are exact; it also counts blocks of batches
 * for which there was not enough. */
static void compare_counts(void)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    struct totals totals = add_up();
    if (moiety_pool_get_stats(world.pool, &stats) != MOIETY_OK)
        world_fail(&world, "moiety_pool_get_stats");
    if (stats.allocation_allocated < totals.allocated ||
        stats.allocation_freed != stats.allocation_allocated ||
        stats.allocation_current || stats.allocated_bytes_current)
        world_fail(&world, "the pool's counts of blocks");
}

static int conclude(void)
{
    uint64_t wrong_bytes = atomic_load(&world.wrong_bytes);
    printf("%" PRIu64 " operations, %" PRIu64 " wrong bytes\n",
           add_up().finished, wrong_bytes);
    return wrong_bytes || atomic_load(&world.is_failed) ? EXIT_WRONG
                                                        : EXIT_RIGHT;
}

int main(int argc, char **argv)
{
    if (!kit_arguments(argc, argv, arguments, usage))
        return EXIT_USAGE;
    CUcontext context = kit_open_driver(options.driver);
    if (!context)
        return EXIT_NO_DRIVER;
    printf("seed %" PRIu64 "\n", options.seed);
    workers = calloc(options.threads, sizeof(*workers));
    kit_require(workers != NULL, "calloc");
    world_begin(&world, &options, context);
    for (uint64_t i = 0; i < options.threads; i++)
        worker_init(&workers[i], &world, (uint32_t)i);
    work();
    compare_counts();
    kit_print_stats(world.pool);
    report_wrong();
    for (uint64_t i = 0; i < options.threads; i++)
        worker_fini(&workers[i]);
    world_end(&world);
    int result = conclude();
    free(workers);
    return result;
}
