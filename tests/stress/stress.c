/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The stress program: threads call everything that a pool offers as fast as
 * they can. The device has no work, but streams are held back, so that events
 * are late. Beside the pool a map says who has which memory, so that memory
 * that is given out twice is seen. Every quarter of a second all is given back,
 * and has to be one whole again.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/stress/arena.h"
#include "tests/stress/player.h"
#include "tests/support/tools/pools.h"
#include "tests/truth/kit.h"

#define PHASE_US 250000
#define STEPS_PER_LIFE 20000
#define SETTLE_NS UINT64_C(60000000000)
#define PLANTED_NS UINT64_C(1000000000)
#define STUCK_S 120

static const char usage[] =
    "usage: stress [--threads=N] [--seconds=N] [--seed=N] [--streams=N]\n"
    "              [--limit=MIB] [--driver=D] [--plant=MISTAKE]\n"
    "  --threads=N     players (default 4)\n"
    "  --seconds=N     how long (default 10)\n"
    "  --seed=N        of the random numbers (default 1)\n"
    "  --streams=N     streams that all of them use (default 16)\n"
    "  --limit=MIB     the pool's memory (default: 64 MiB a thread)\n"
    "  --driver=D      auto, cuda, standin or a path with a / in it (default:\n"
    "                  what MOIETY_DRIVER says)\n"
    "  --plant=overlap a player frees a block and keeps it; the run must fail\n"
    "  --plant=loss    a player forgets a block; the run must fail\n"
    "exit status: 0 all well; 1 an overlap, a loss or a wrong answer; 2 bad\n"
    "             argument; 3 no such driver or device; 4 the driver failed\n";

static struct options {
    uint64_t threads;
    uint64_t seconds;
    uint64_t seed;
    uint64_t streams;
    uint64_t limit_mib;
    const char *driver;
    const char *plant;
} options = {.threads = 4, .seconds = 10, .seed = 1, .streams = 16};

static const struct argument arguments[] = {
    {"threads", &options.threads, 1, 256, NULL},
    {"seconds", &options.seconds, 1, 86400, NULL},
    {"seed", &options.seed, 0, UINT64_MAX, NULL},
    {"streams", &options.streams, 1, 1024, NULL},
    {"limit", &options.limit_mib, 16, UINT64_C(1) << 20, NULL},
    {"driver", NULL, 0, 0, &options.driver},
    {"plant", NULL, 0, 0, &options.plant},
    {NULL, NULL, 0, 0, NULL},
};

static struct game game;
static struct arena arena;
static struct player *players;
static pthread_barrier_t barrier;
static atomic_bool is_over;
static uint64_t phases;
static uint64_t merges; /* phases after which all memory was one whole */
static uint64_t lost_bytes;

static void *live(void *argument)
{
    struct player *player = argument;
    player_play(player, STEPS_PER_LIFE);
    /* The last thread of a phase takes its caches with it. */
    if (atomic_load(&game.is_drained))
        player_drain(player);
    return NULL;
}

/* Every second player changes its thread again and again. */
static void play_in_other_threads(struct player *player)
{
    pthread_t thread;
    while (!atomic_load(&game.is_drained)) {
        kit_require(pthread_create(&thread, NULL, live, player) == 0,
                    "pthread_create");
        (void)pthread_join(thread, NULL);
    }
}

static void *run(void *argument)
{
    struct player *player = argument;
    while (!atomic_load(&is_over)) {
        if (player->index % 2)
            play_in_other_threads(player);
        else
            player_play(player, UINT64_MAX);
        pthread_barrier_wait(&barrier);
        player_drain(player);
        if (moiety_pool_trim(game.pool, UINT64_MAX, NULL) != MOIETY_OK)
            game_fail(&game, "moiety_pool_trim");
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier); /* main() has looked */
    }
    return NULL;
}

/* Trims until all is free, or gives up. At most one segment is left, or none,
 * so that a whole is one run. */
static moiety_pool_stats settle(uint64_t keep_bytes)
{
    uint64_t begin_ns = kit_now_ns();
    /* What is lost on purpose never comes back. */
    uint64_t most_ns = options.plant ? PLANTED_NS : SETTLE_NS;
    moiety_pool_stats stats = {0};
    do {
        stats.struct_size = sizeof(stats);
        if (moiety_pool_trim(game.pool, keep_bytes, NULL) != MOIETY_OK ||
            moiety_pool_get_stats(game.pool, &stats) != MOIETY_OK)
            game_fail(&game, "moiety_pool_trim or moiety_pool_get_stats");
        kit_pause_us(100);
    } while (stats.free_bytes != stats.reserved_bytes_current &&
             kit_now_ns() - begin_ns < most_ns);
    return stats;
}

/* Nobody plays, and all have freed what they had. */
static void look(uint64_t keep_bytes)
{
    moiety_pool_stats stats = settle(keep_bytes);
    phases++;
    lost_bytes = stats.reserved_bytes_current - stats.free_bytes;
    if (lost_bytes == 0 && stats.allocation_current == 0 &&
        stats.allocated_bytes_current == 0 &&
        stats.longest_run_bytes == stats.reserved_bytes_current &&
        stats.reserved_bytes_current == arena.reserved_bytes &&
        (keep_bytes || stats.reserved_bytes_current == 0) &&
        map_is_empty(&game.map)) {
        merges++;
        return;
    }
    if (!atomic_load(&game.is_failed))
        kit_print_stats(game.pool);
    game_fail(&game, "what is left when all is freed");
}

static uint64_t add_up(uint64_t *out_denied)
{
    uint64_t operations = 0;
    *out_denied = 0;
    for (uint64_t i = 0; i < options.threads; i++) {
        operations += atomic_load(&players[i].operations);
        *out_denied += atomic_load(&players[i].denied);
    }
    return operations;
}

/* Phases until time is over or something is wrong. */
static void direct(void)
{
    uint64_t end_ns = kit_now_ns() + options.seconds * 1000000000U;
    while (!atomic_load(&is_over)) {
        kit_pause_us(PHASE_US);
        atomic_store(&game.is_drained, true);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        look(phases % 2);
        if (kit_now_ns() > end_ns || atomic_load(&game.is_failed) ||
            atomic_load(&game.map.overlaps))
            atomic_store(&is_over, true);
        atomic_store(&game.is_drained, false);
        pthread_barrier_wait(&barrier);
    }
}

static void play(void)
{
    pthread_t *threads = calloc(options.threads, sizeof(*threads));
    kit_require(threads != NULL, "calloc");
    kit_require(pthread_barrier_init(&barrier, NULL,
                                     (unsigned)options.threads + 1) == 0,
                "pthread_barrier_init");
    uint64_t begin_ns = kit_now_ns();
    for (uint64_t i = 0; i < options.threads; i++)
        kit_require(pthread_create(&threads[i], NULL, run, &players[i]) == 0,
                    "pthread_create");
    direct();
    for (uint64_t i = 0; i < options.threads; i++)
        (void)pthread_join(threads[i], NULL);
    uint64_t denied;
    double seconds = (double)(kit_now_ns() - begin_ns) * 1e-9;
    uint64_t operations = add_up(&denied);
    printf("%.1f s, %" PRIu64 " operations, %.0f a second; %" PRIu64
           " allocations found no memory\n",
           seconds, operations, (double)operations / seconds, denied);
    free(threads);
}

static void create_pool(void)
{
    moiety_source source = arena_source(&arena);
    moiety_pool_options pool_options = driver_options();
    pool_options.source = &source;
    pool_options.limit_bytes = options.limit_mib << 20;
    pool_options.first_segment_bytes = UINT64_C(8) << 20;
    pool_options.largest_segment_bytes = UINT64_C(32) << 20;
    pool_options.wait_ms = 1;
    if (moiety_pool_create(&pool_options, &game.pool) == MOIETY_OK)
        return;
    (void)fprintf(stderr, "%s\n", moiety_last_error_message());
    exit(EXIT_WRONG);
}

static void begin(CUcontext context)
{
    uint64_t random = random_start(options.seed, UINT32_MAX);
    if (!options.limit_mib)
        options.limit_mib = options.threads * 64;
    game.context = context;
    game.share_bytes = (options.limit_mib << 20) / options.threads;
    game.stream_count = (uint32_t)options.streams;
    game.streams = calloc(options.streams, sizeof(CUstream));
    players = calloc(options.threads, sizeof(*players));
    kit_require(game.streams && players, "calloc");
    arena_init(&arena, options.limit_mib << 20);
    map_init(&game.map, arena.base, options.limit_mib << 20);
    create_pool();
    for (uint64_t i = 0; i < options.streams; i++)
        game.streams[i] = kit_create_stream(random_next(&random));
    holds_begin(&game.holds, (uint32_t)options.streams);
    for (uint64_t i = 0; i < options.threads; i++)
        player_init(&players[i], &game, (uint32_t)i, options.seed);
}

static void end(void)
{
    moiety_leaks leaks = {.struct_size = sizeof(leaks)};
    for (uint64_t i = 0; i < options.threads; i++)
        player_fini(&players[i]);
    for (uint64_t i = 0; i < options.streams; i++) {
        if (moiety_pool_retire_stream(game.pool, game.streams[i]) != MOIETY_OK)
            game_fail(&game, "moiety_pool_retire_stream");
        MUST(cu.cuStreamDestroy(game.streams[i]));
    }
    if (moiety_pool_destroy(game.pool, &leaks) != MOIETY_OK)
        game_fail(&game, "moiety_pool_destroy");
    if (leaks.bytes)
        lost_bytes = leaks.bytes;
    if (leaks.block_count || arena.reserved_bytes || arena.bad_releases)
        game_fail(&game, "what is left of a destroyed pool");
    holds_end(&game.holds);
    map_fini(&game.map);
    arena_fini(&arena);
    free(game.streams);
    free(players);
}

static void print_numbers(void)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    if (moiety_pool_get_stats(game.pool, &stats) != MOIETY_OK)
        game_fail(&game, "moiety_pool_get_stats");
    printf("%" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64
           " batches retired\n",
           stats.cache_hits, stats.cache_misses, stats.ages_closed);
    kit_print_stats(game.pool);
}

static int conclude(void)
{
    uint64_t overlaps = atomic_load(&game.map.overlaps);
    printf("%" PRIu64 " merges to whole in %" PRIu64 " phases\n", merges,
           phases);
    printf("%" PRIu64 " overlaps, %" PRIu64 " lost bytes\n", overlaps,
           lost_bytes);
    return overlaps || lost_bytes || atomic_load(&game.is_failed) ? EXIT_WRONG
                                                                  : EXIT_RIGHT;
}

static bool read_plant(void)
{
    if (!options.plant)
        return true;
    if (strcmp(options.plant, "overlap") == 0)
        game.plant = PLANT_OVERLAP;
    else if (strcmp(options.plant, "loss") == 0)
        game.plant = PLANT_LOSS;
    else
        (void)fprintf(stderr, "--plant=%s: accepted are overlap and loss\n",
                      options.plant);
    return game.plant != PLANT_NOTHING;
}

int main(int argc, char **argv)
{
    if (!kit_arguments(argc, argv, arguments, usage) || !read_plant())
        return EXIT_USAGE;
    CUcontext context = kit_open_driver(options.driver);
    if (!context)
        return EXIT_NO_DRIVER;
    printf("seed %" PRIu64 "\n", options.seed);
    (void)fflush(stdout);
    /* A pool that never comes back ends by this signal. */
    (void)alarm((unsigned)options.seconds + STUCK_S);
    begin(context);
    play();
    print_numbers();
    end();
    return conclude();
}
