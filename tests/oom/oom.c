/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The out-of-memory program: threads keep a pool at its limit. Either of one
 * size, with permits, so that demand never exceeds the limit: then no allocation
 * may fail. Or of many sizes and more than there is: then each failure has to
 * prove itself by its report. At the end all memory has to be back.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/oom/player.h"
#include "tests/support/tools/pools.h"
#include "tests/truth/kit.h"

#define SETTLE_NS UINT64_C(60000000000)
#define STUCK_S 120
#define INEXACT_LEAST 20U

static const char usage[] =
    "usage: oom [--run=fit|over] [--threads=N] [--seconds=N] [--seed=N]\n"
    "           [--limit=MIB] [--size=BYTES] [--free=done|stream|any|mixed]\n"
    "           [--thread-cache=BYTES] [--wait=MS] [--callbacks=0|1]\n"
    "           [--driver=D]\n"
    "  --run=fit           one size, never more than the limit: no allocation\n"
    "                      may fail (default)\n"
    "  --run=over          many sizes, and more than there is: each failure\n"
    "                      has to be proved by its report\n"
    "  --threads=N         players (default 16)\n"
    "  --seconds=N         how long (default 10)\n"
    "  --seed=N            of the random numbers (default 1)\n"
    "  --limit=MIB         the pool's memory (default 64)\n"
    "  --size=BYTES        of every block, with fit (default 65536)\n"
    "  --free=...          how blocks are freed (default done with fit, mixed\n"
    "                      with over)\n"
    "  --thread-cache=N    the option of the pool (default 0)\n"
    "  --wait=MS           the option of the pool (default 1000 with fit, 1\n"
    "                      with over)\n"
    "  --callbacks=1       callbacks free, allocate and throw away (over "
    "only)\n"
    "  --driver=D          auto, cuda, standin or a path with a / in it\n"
    "exit status: 0 all well; 1 a false failure, a loss or a wrong answer;\n"
    "             2 bad argument; 3 no such driver or device; 4 the driver\n"
    "             failed\n";

#define UNSET UINT64_MAX

static struct options {
    const char *run;
    const char *free;
    const char *driver;
    uint64_t threads;
    uint64_t seconds;
    uint64_t seed;
    uint64_t limit_mib;
    uint64_t size_bytes;
    uint64_t thread_cache_bytes;
    uint64_t wait_ms;
    uint64_t callbacks;
} options = {.run = "fit",
             .threads = 16,
             .seconds = 10,
             .seed = 1,
             .limit_mib = 64,
             .size_bytes = 65536,
             .wait_ms = UNSET};

static const struct argument arguments[] = {
    {"run", NULL, 0, 0, &options.run},
    {"free", NULL, 0, 0, &options.free},
    {"driver", NULL, 0, 0, &options.driver},
    {"threads", &options.threads, 1, 256, NULL},
    {"seconds", &options.seconds, 1, 86400, NULL},
    {"seed", &options.seed, 0, UINT64_MAX, NULL},
    {"limit", &options.limit_mib, 2, UINT64_C(1) << 20, NULL},
    {"size", &options.size_bytes, 512, UINT64_C(1) << 30, NULL},
    {"thread-cache", &options.thread_cache_bytes, 0, UINT64_C(1) << 40, NULL},
    {"wait", &options.wait_ms, 0, UINT32_MAX - 1, NULL},
    {"callbacks", &options.callbacks, 0, 1, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static struct game game;
static struct player *players;

static int find_word(const char *name, const char *text,
                     const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    (void)fprintf(stderr, "--%s=%s is not accepted\n%s", name, text, usage);
    return -1;
}

static bool read_words(void)
{
    static const char *const runs[] = {"fit", "over", NULL};
    static const char *const frees[] = {"done", "stream", "any", "mixed", NULL};
    int run = find_word("run", options.run, runs);
    if (run < 0)
        return false;
    if (!options.free)
        options.free = run ? "mixed" : "done";
    int freed = find_word("free", options.free, frees);
    if (freed < 0)
        return false;
    game.freed = (enum freed)freed;
    game.size_bytes = run ? 0 : options.size_bytes;
    game.has_callbacks = run && options.callbacks;
    if (options.wait_ms == UNSET)
        options.wait_ms = run ? 1 : 1000;
    return true;
}

static void create_pool(CUcontext context)
{
    moiety_pool_options pool_options = driver_options();
    pool_options.context = context;
    pool_options.limit_bytes = options.limit_mib << 20;
    pool_options.first_segment_bytes = UINT64_C(2) << 20;
    pool_options.largest_segment_bytes = UINT64_C(32) << 20;
    pool_options.thread_cache_bytes = bytes_of(options.thread_cache_bytes);
    pool_options.wait_ms = wait_of(options.wait_ms);
    if (moiety_pool_create(&pool_options, &game.pool) == MOIETY_OK)
        return;
    (void)fprintf(stderr, "%s\n", moiety_last_error_message());
    exit(EXIT_WRONG);
}

static void begin(CUcontext context)
{
    game.limit_bytes = options.limit_mib << 20;
    game.wanted_bytes = 3 * game.limit_bytes / (2 * options.threads);
    game.hand_max = 4096;
    if (game.size_bytes) {
        game.permits = (int64_t)(game.limit_bytes / game.size_bytes);
        game.hand_max = (uint32_t)game.permits;
    }
    create_pool(context);
    players = calloc(options.threads, sizeof(*players));
    kit_require(players != NULL, "calloc");
    for (uint64_t i = 0; i < options.threads; i++)
        player_init(&players[i], &game, (uint32_t)i, options.seed);
    if (game.has_callbacks)
        stash_init(&game);
}

static CUcontext context;

static void *run(void *argument)
{
    MUST(cu.cuCtxSetCurrent(context));
    player_play(argument);
    return NULL;
}

/* Where all fits, one failure is enough. */
static bool has_failed_falsely(void)
{
    return game.size_bytes && atomic_load(&game.failures);
}

static void play(void)
{
    pthread_t *threads = calloc(options.threads, sizeof(*threads));
    kit_require(threads != NULL, "calloc");
    uint64_t begin_ns = kit_now_ns();
    uint64_t end_ns = begin_ns + options.seconds * 1000000000U;
    for (uint64_t i = 0; i < options.threads; i++)
        kit_require(pthread_create(&threads[i], NULL, run, &players[i]) == 0,
                    "pthread_create");
    /* As long as the options say. */
    while (kit_now_ns() < end_ns && !atomic_load(&game.wrong) &&
           !has_failed_falsely())
        kit_pause_us(10000);
    atomic_store(&game.is_over, true);
    for (uint64_t i = 0; i < options.threads; i++)
        (void)pthread_join(threads[i], NULL);
    free(threads);
    uint64_t operations = atomic_load(&game.operations);
    double seconds = (double)(kit_now_ns() - begin_ns) * 1e-9;
    printf("%.1f s, %" PRIu64 " operations, %.0f a second\n", seconds,
           operations, (double)operations / seconds);
}

/* All threads have ended: what they left comes back by trimming. */
static uint64_t settle(void)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    uint64_t begin_ns = kit_now_ns();
    do {
        if (moiety_pool_trim(game.pool, UINT64_MAX, NULL) != MOIETY_OK ||
            moiety_pool_get_stats(game.pool, &stats) != MOIETY_OK)
            game_wrong(&game, "moiety_pool_trim or moiety_pool_get_stats");
    } while (stats.free_bytes != stats.reserved_bytes_current &&
             kit_now_ns() - begin_ns < SETTLE_NS);
    if (stats.allocation_current || stats.allocated_bytes_current)
        game_wrong(&game, "blocks are left");
    kit_print_stats(game.pool);
    return stats.reserved_bytes_current - stats.free_bytes;
}

static uint64_t end(void)
{
    moiety_leaks leaks = {.struct_size = sizeof(leaks)};
    if (game.has_callbacks)
        stash_fini(&game);
    uint64_t lost_bytes = settle();
    for (uint64_t i = 0; i < options.threads; i++) {
        player_fini(&players[i]);
        MUST(cu.cuStreamDestroy(players[i].stream));
    }
    if (moiety_pool_destroy(game.pool, &leaks) != MOIETY_OK)
        game_wrong(&game, "moiety_pool_destroy");
    free(players);
    return lost_bytes + leaks.bytes;
}

/* Where a thread of a busy machine is away for longer than a search waits, a report
 * says truly that it is inexact; all of many do not. */
static bool is_inexact(uint64_t failures, uint64_t inexact)
{
    return failures >= INEXACT_LEAST && inexact == failures;
}

static int conclude(uint64_t lost_bytes)
{
    uint64_t failures = atomic_load(&game.failures);
    uint64_t unproved = atomic_load(&game.unproved);
    uint64_t inexact = atomic_load(&game.inexact);
    bool is_wrong = lost_bytes || unproved || is_inexact(failures, inexact) ||
                    atomic_load(&game.wrong) || has_failed_falsely();
    printf("%" PRIu64 " failures, %" PRIu64 " unproved, %" PRIu64
           " inexact, %" PRIu64 " calls of callbacks, %" PRIu64 " lost bytes\n",
           failures, unproved, inexact, atomic_load(&game.callbacks),
           lost_bytes);
    return is_wrong ? EXIT_WRONG : EXIT_RIGHT;
}

int main(int argc, char **argv)
{
    if (!kit_arguments(argc, argv, arguments, usage) || !read_words())
        return EXIT_USAGE;
    context = kit_open_driver(options.driver);
    if (!context)
        return EXIT_NO_DRIVER;
    printf("--run=%s --threads=%" PRIu64 " --seed=%" PRIu64 " --limit=%" PRIu64
           " --size=%" PRIu64 " --free=%s --thread-cache=%" PRIu64
           " --wait=%" PRIu64 " --callbacks=%" PRIu64 "\n",
           options.run, options.threads, options.seed, options.limit_mib,
           options.size_bytes, options.free, options.thread_cache_bytes,
           options.wait_ms, options.callbacks);
    (void)fflush(stdout);
    /* A pool that never comes back ends by this signal. */
    (void)alarm((unsigned)options.seconds + STUCK_S);
    begin(context);
    play();
    return conclude(end());
}
