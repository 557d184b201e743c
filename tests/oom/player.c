/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/oom/player.h"

#include "moiety/oom.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/truth/kit.h"

#define BATCH_MOST 32U
#define SAID_MOST 3U
#define TEXT_BYTES 4096U
#define STIR_ODDS 2000U

void game_wrong(struct game *game, const char *what)
{
    if (atomic_fetch_add(&game->wrong, 1) < SAID_MOST)
        (void)fprintf(stderr, "WRONG: %s: %s\n", what,
                      moiety_last_error_message());
}

static void say(const char *what, const moiety_oom_report *report)
{
    char text[TEXT_BYTES];
    (void)moiety_oom_text(report, text, sizeof(text));
    (void)fprintf(stderr, "%s\n%s", what, text);
}

/* Whether the memory that is not free for good, and the request, are more than
 * the limit; or nothing that is free is long enough. */
static bool is_proof(const moiety_oom_report *report)
{
    return report->live_bytes + report->retiring_bytes + report->needed_bytes >
               report->limit_bytes ||
           report->largest_free_bytes < report->needed_bytes;
}

void game_judge(struct game *game, uint64_t size_bytes)
{
    moiety_oom_report report = {.struct_size = sizeof(report)};
    uint64_t nth = atomic_fetch_add(&game->failures, 1);
    if (moiety_pool_last_oom(game->pool, &report) != MOIETY_OK ||
        report.requested_bytes != size_bytes || report.pool != game->pool)
        game_wrong(game, "the report is not of this failure");
    if (!report.is_exact)
        atomic_fetch_add(&game->inexact, 1);
    if (!is_proof(&report) && atomic_fetch_add(&game->unproved, 1) < SAID_MOST)
        say("UNPROVED", &report);
    if (game->size_bytes && nth < SAID_MOST)
        say("FAILED although all was within the limit", &report);
}

static moiety_stream end_of(struct player *player)
{
    switch (player->game->freed) {
    case FREED_DONE:
        return MOIETY_STREAM_DONE;
    case FREED_STREAM:
        return player->stream;
    case FREED_ANY:
        return MOIETY_STREAM_ANY;
    case FREED_MIXED:
        break;
    }
    switch (random_below(&player->random, 4)) {
    case 0:
        return MOIETY_STREAM_DONE;
    case 1:
        return MOIETY_STREAM_ANY;
    default:
        return player->stream;
    }
}

static uint64_t choose_size(struct player *player)
{
    uint32_t order = 9 + random_below(&player->random, 13);
    uint64_t bytes = UINT64_C(1) << order;
    return bytes + random_below(&player->random, (uint32_t)bytes);
}

/* A block of the hand, whichever. */
static void give_one(struct player *player)
{
    struct game *game = player->game;
    uint32_t at = random_below(&player->random, player->count);
    struct block block = player->hand[at];
    player->hand[at] = player->hand[--player->count];
    player->bytes -= block.size_bytes;
    if (moiety_free(game->pool, block.address, end_of(player)) != MOIETY_OK)
        game_wrong(game, "moiety_free");
    if (game->size_bytes)
        atomic_fetch_add(&game->permits, 1);
}

static void give_some(struct player *player)
{
    uint32_t count = 1 + random_below(&player->random, BATCH_MOST);
    while (count-- && player->count)
        give_one(player);
}

static bool take_one(struct player *player, uint64_t size_bytes)
{
    struct game *game = player->game;
    struct block block = {0, size_bytes};
    moiety_status status =
        moiety_alloc(game->pool, size_bytes, player->stream, &block.address);
    if (status == MOIETY_OK) {
        player->hand[player->count++] = block;
        player->bytes += size_bytes;
        return true;
    }
    if (status == MOIETY_E_NO_DEVICE_MEMORY)
        game_judge(game, size_bytes);
    else
        game_wrong(game, "moiety_alloc");
    return false;
}

bool player_is_permitted(struct game *game, int64_t count)
{
    int64_t seen = atomic_load(&game->permits);
    while (seen >= count)
        if (atomic_compare_exchange_weak(&game->permits, &seen, seen - count))
            return true;
    return false;
}

/* As many as all together may hold, and not one more. */
static void take_permitted(struct player *player)
{
    struct game *game = player->game;
    int64_t count = 1 + random_below(&player->random, BATCH_MOST);
    if (player->count + count > game->hand_max ||
        !player_is_permitted(game, count)) {
        if (player->count)
            give_some(player);
        else
            (void)sched_yield();
        return;
    }
    while (count--)
        if (!take_one(player, game->size_bytes))
            atomic_fetch_add(&game->permits, 1);
}

/* More than all together can have. */
static void take_too_much(struct player *player)
{
    uint64_t size_bytes = choose_size(player);
    if (player->count == player->game->hand_max ||
        player->bytes + size_bytes > player->game->wanted_bytes ||
        !take_one(player, size_bytes))
        give_some(player);
}

static void step(struct player *player)
{
    struct game *game = player->game;
    atomic_fetch_add_explicit(&game->operations, 1, memory_order_relaxed);
    if (game->has_callbacks && random_once_in(&player->random, STIR_ODDS))
        stash_stir(game);
    if (player->count && random_once_in(&player->random, 8))
        give_some(player);
    else if (game->size_bytes)
        take_permitted(player);
    else
        take_too_much(player);
}

void player_play(struct player *player)
{
    struct game *game = player->game;
    while (!atomic_load(&game->is_over) && !atomic_load(&game->wrong))
        step(player);
    while (player->count)
        give_one(player);
}

void player_init(struct player *player, struct game *game, uint32_t index,
                 uint64_t seed)
{
    player->game = game;
    player->random = random_start(seed, index);
    player->stream = kit_create_stream(random_next(&player->random));
    player->hand = calloc(game->hand_max, sizeof(*player->hand));
    kit_require(player->hand != NULL, "calloc");
}

void player_fini(struct player *player)
{
    if (moiety_pool_retire_stream(player->game->pool, player->stream) !=
        MOIETY_OK)
        game_wrong(player->game, "moiety_pool_retire_stream");
    free(player->hand);
}
