/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads that play at the same time, for a few shifts on one pool. They sleep
 * now and then, hand blocks to each other, and end with each shift, so that the
 * next one finds what ended threads left in their caches. Failures are judged
 * between shifts, when all calls that were under way beside them are known.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/oom/oracle/games.h"

#define SHIFTS 4U
#define HAND_MOST 48U
#define MARKET_MOST 16U
#define SLEEP_ODDS 300U
#define SLEEP_MOST_US 1500U
#define FINISH_EVERY_US 400U

struct game {
    struct play play;
    struct setting setting;
    uint64_t seed;
    uint64_t steps;
    struct chances chances;
    CUcontext context;
    atomic_bool is_over; /* the shift */
    /* Blocks that players give to each other. */
    pthread_mutex_t market_lock;
    struct history_block *market[MARKET_MOST];
};

struct player {
    struct game *game;
    uint64_t random;
    pthread_t thread;
    struct history_block *hand[HAND_MOST];
    uint32_t count;
    struct refusal *refusals; /* of this shift; room for one a step */
    size_t refusal_count;
};

static uint32_t random_stream(struct player *player)
{
    return random_below(&player->random, DEVICE_STREAMS);
}

static void give_one(struct player *player)
{
    if (!player->count)
        return;
    uint32_t at = random_below(&player->random, player->count);
    struct history_block *block = player->hand[at];
    player->hand[at] = player->hand[--player->count];
    play_free(&player->game->play, block, random_how(&player->random),
              random_stream(player), random_stream(player));
}

static void take_one(struct player *player)
{
    struct game *game = player->game;
    if (player->count == HAND_MOST) {
        give_one(player);
        return;
    }
    uint32_t stream = random_once_in(&player->random, 16)
                          ? HISTORY_NO_STREAM
                          : random_stream(player);
    uint64_t size_bytes =
        random_size(&player->random, game->setting.limit_bytes);
    struct history_block *block =
        play_alloc(&game->play, stream, size_bytes,
                   &player->refusals[player->refusal_count]);
    if (block)
        player->hand[player->count++] = block;
    else
        player->refusal_count++;
}

/* Puts a block into the market, for the one that lies there. */
static void trade(struct player *player)
{
    struct game *game = player->game;
    if (!player->count)
        return;
    struct history_block **mine = &player->hand[player->count - 1];
    uint32_t at = random_below(&player->random, MARKET_MOST);
    pthread_mutex_lock(&game->market_lock);
    struct history_block *theirs = game->market[at];
    game->market[at] = *mine;
    pthread_mutex_unlock(&game->market_lock);
    *mine = theirs;
    if (!theirs)
        player->count--;
}

static void stir_device(struct player *player)
{
    const struct game *game = player->game;
    if (random_below(&player->random, 100) < game->setting.queue_percent)
        device_queue(game->play.device, random_stream(player));
    else
        device_finish(game->play.device, random_stream(player));
}

static void step(struct player *player)
{
    uint32_t choice = random_below(&player->random, 100);
    if (random_once_in(&player->random, SLEEP_ODDS))
        kit_pause_us((long)random_below(&player->random, SLEEP_MOST_US));
    if (choice < 55)
        take_one(player);
    else if (choice < 88)
        give_one(player);
    else if (choice < 94)
        trade(player);
    else
        stir_device(player);
}

static void *work(void *argument)
{
    struct player *player = argument;
    MUST(cu.cuCtxSetCurrent(player->game->context));
    for (uint64_t i = 0; i < player->game->steps; i++)
        step(player);
    return NULL;
}

/* The device gets on with its work. */
static void *finish_streams(void *argument)
{
    struct game *game = argument;
    uint64_t random = random_start(game->steps, 77);
    MUST(cu.cuCtxSetCurrent(game->context));
    while (!atomic_load(&game->is_over)) {
        kit_pause_us((long)random_below(&random, FINISH_EVERY_US));
        device_finish(game->play.device, random_below(&random, DEVICE_STREAMS));
    }
    return NULL;
}

static void start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    kit_require(pthread_create(thread, NULL, run, argument) == 0,
                "pthread_create");
}

static void judge_player(struct games *games, struct game *game,
                         struct player *player)
{
    for (size_t i = 0; i < player->refusal_count; i++) {
        struct refusal *refusal = &player->refusals[i];
        if (play_judge(&game->play, refusal) != HISTORY_FALSE ||
            games->shown == 0)
            continue;
        games->shown--;
        printf("a false failure, seed %" PRIu64 ", wait %" PRIu32 " ms:\n",
               game->seed, game->setting.wait_ms);
        play_print(refusal);
    }
    player->refusal_count = 0;
}

static void play_shift(struct games *games, struct game *game,
                       struct player *players)
{
    pthread_t device_thread;
    uint32_t count = game->setting.thread_count;
    atomic_store(&game->is_over, false);
    start(&device_thread, finish_streams, game);
    for (uint32_t i = 0; i < count; i++)
        start(&players[i].thread, work, &players[i]);
    for (uint32_t i = 0; i < count; i++)
        (void)pthread_join(players[i].thread, NULL);
    atomic_store(&game->is_over, true);
    (void)pthread_join(device_thread, NULL);
    for (uint32_t i = 0; i < count; i++)
        judge_player(games, game, &players[i]);
}

static struct player *make_players(struct game *game, uint64_t seed)
{
    uint32_t count = game->setting.thread_count;
    struct player *players = calloc(count, sizeof(*players));
    kit_require(players != NULL, "calloc");
    for (uint32_t i = 0; i < count; i++) {
        players[i].game = game;
        players[i].random = random_start(seed, i + 1);
        players[i].refusals = calloc(game->steps, sizeof(*players[i].refusals));
        kit_require(players[i].refusals != NULL, "calloc");
    }
    return players;
}

static void play_game(struct games *games, uint64_t seed)
{
    struct game game = {
        .seed = seed, .steps = games->steps, .chances = games->chances};
    uint64_t random = random_start(seed, 0);
    game.setting = random_setting(&random, &games->chances);
    MUST(cu.cuCtxGetCurrent(&game.context));
    (void)pthread_mutex_init(&game.market_lock, NULL);
    play_begin(&game.play, &games->device, &game.setting,
               SHIFTS * game.steps * game.setting.thread_count, &games->tally);
    struct player *players = make_players(&game, seed);
    for (unsigned i = 0; i < SHIFTS; i++)
        play_shift(games, &game, players);
    for (uint32_t i = 0; i < game.setting.thread_count; i++)
        free(players[i].refusals);
    free(players);
    play_end(&game.play);
    (void)pthread_mutex_destroy(&game.market_lock);
}

void games_of_threads(struct games *games)
{
    uint64_t seed = games->seed;
    while (atomic_load(&games->tally.failures) < games->failures)
        play_game(games, seed++);
}
