/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The oracle program: plays at random on the stand-in until so many allocations
 * have failed, and tells how many of these failures were false: history.h says
 * which are.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/oom/oracle/crew.h"
#include "tests/oom/oracle/games.h"

static const char usage[] =
    "usage: oracle [--run=turns|threads|one] [--failures=N] [--seed=N]\n"
    "              [--steps=N] [--threads=N] [--pools=N]\n"
    "              [--memory=source|mapped] [--segments=many|one] [--wait=MS]\n"
    "              [--check=no|yes] [--show=N] [--driver=D]\n"
    "  --run=turns    random programs whose threads take turns; a false\n"
    "                 failure is shrunk and printed (default)\n"
    "  --run=threads  threads that play at the same time\n"
    "  --run=one      one stream, one block alive at a time, on the device's\n"
    "                 own memory\n"
    "  --failures=N   play until so many allocations failed (default 2000)\n"
    "  --seed=N       of the first game; the next one's is one more (default\n"
    "                 1)\n"
    "  --steps=N      of a game, or of a thread's shift (default 1500)\n"
    "  --threads=N    of a game, at most (default 4)\n"
    "  --pools=N      with --run=one (default 20)\n"
    "  --check=yes    with --run=turns: each verdict is checked by a second\n"
    "                 try once nothing is pending (default no)\n"
    "  --memory=mapped\n"
    "                 with turns and threads: mapped pools, up to 4 GiB,\n"
    "                 whose handles move (default source: of addresses)\n"
    "  --segments=one the whole limit is one segment (default many)\n"
    "  --wait=MS      of all pools (default: mostly 0, of some 5 or 50)\n"
    "  --show=N       false failures to print (default 1)\n"
    "  --driver=D     standin or a path of it with a / in it\n"
    "exit status: 0 no failure was false; 1 some were; 2 bad argument; 3 no\n"
    "             such driver; 4 the pool or the driver failed otherwise\n";

static struct options {
    const char *run;
    const char *check;
    const char *memory;
    const char *segments;
    const char *driver;
} options = {
    .run = "turns", .check = "no", .memory = "source", .segments = "many"};

static struct games games = {
    .chances = {.thread_most = CREW_MOST / 2, .wait_ms = CHANCES_RANDOM},
    .seed = 1,
    .failures = 2000,
    .steps = 1500,
    .pools = 20,
    .shown = 1,
};

static const struct argument arguments[] = {
    {"run", NULL, 0, 0, &options.run},
    {"check", NULL, 0, 0, &options.check},
    {"memory", NULL, 0, 0, &options.memory},
    {"segments", NULL, 0, 0, &options.segments},
    {"driver", NULL, 0, 0, &options.driver},
    {"failures", &games.failures, 1, UINT64_C(1) << 40, NULL},
    {"seed", &games.seed, 0, UINT64_MAX, NULL},
    {"steps", &games.steps, 1, 100000, NULL},
    {"threads", &games.chances.thread_most, 1, CREW_MOST, NULL},
    {"wait", &games.chances.wait_ms, 0, 60000, NULL},
    {"pools", &games.pools, 1, 1000000, NULL},
    {"show", &games.shown, 0, 1000, NULL},
    {NULL, NULL, 0, 0, NULL},
};

typedef void play_fn(struct games *games);

static const struct kind {
    const char *name;
    play_fn *play;
} kinds[] = {
    {"turns", games_in_turns},
    {"threads", games_of_threads},
    {"one", games_of_one},
};

static bool refuse(const char *name, const char *text)
{
    (void)fprintf(stderr, "--%s=%s is not accepted\n%s", name, text, usage);
    return false;
}

/* Which of two words it is. */
static bool read_choice(const char *name, const char *text, const char *no,
                        const char *yes, bool *out)
{
    *out = strcmp(text, yes) == 0;
    return *out || strcmp(text, no) == 0 || refuse(name, text);
}

static bool read_run(play_fn **out)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(options.run, kinds[i].name) != 0)
            continue;
        *out = kinds[i].play;
        return true;
    }
    return refuse("run", options.run);
}

static bool read_options(play_fn **out)
{
    return read_run(out) &&
           read_choice("memory", options.memory, "source", "mapped",
                       &games.chances.is_mapped) &&
           read_choice("segments", options.segments, "many", "one",
                       &games.chances.has_one_segment) &&
           read_choice("check", options.check, "no", "yes", &games.is_checked);
}

static int conclude(void)
{
    const struct tally *tally = &games.tally;
    uint64_t failures = atomic_load(&tally->failures);
    uint64_t false_count = atomic_load(&tally->verdicts[HISTORY_FALSE]);
    uint64_t by_place = atomic_load(&tally->verdicts[HISTORY_BY_PLACE]);
    printf("%" PRIu64 " games, %" PRIu64 " allocations, %" PRIu64
           " failures: %" PRIu64 " true, %" PRIu64 " excused, %" PRIu64
           " false, %" PRIu64 " of these inexact; %.1f false in 100000\n",
           atomic_load(&tally->games), atomic_load(&tally->allocations),
           failures, atomic_load(&tally->verdicts[HISTORY_TRUE]),
           atomic_load(&tally->verdicts[HISTORY_EXCUSED]) + by_place,
           false_count, atomic_load(&tally->inexact),
           failures ? 1e5 * (double)false_count / (double)failures : 0.0);
    if (games.chances.is_mapped)
        printf("%" PRIu64
               " of the excused fit only at an old place of a handle, "
               "or if a handle\nthat is mapped at one went elsewhere\n",
               by_place);
    uint64_t served = atomic_load(&tally->served);
    uint64_t refused = atomic_load(&tally->refused);
    if (games.is_checked)
        printf("tried again: %" PRIu64 " of the true ones were served, %" PRIu64
               " of the others refused\n",
               served, refused);
    return false_count || served || refused ? EXIT_WRONG : EXIT_RIGHT;
}

int main(int argc, char **argv)
{
    play_fn *play;
    if (!kit_arguments(argc, argv, arguments, usage) || !read_options(&play))
        return EXIT_USAGE;
    if (!kit_open_driver(options.driver) || !device_find_controls())
        return EXIT_NO_DRIVER;
    printf("--run=%s --seed=%" PRIu64 " --steps=%" PRIu64 " --threads=%" PRIu64
           " --memory=%s --segments=%s\n",
           options.run, games.seed, games.steps, games.chances.thread_most,
           options.memory, options.segments);
    (void)fflush(stdout);
    device_init(&games.device);
    play(&games);
    device_fini(&games.device);
    return conclude();
}
