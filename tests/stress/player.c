/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/stress/player.h"

#include <stdio.h>

#include "tests/truth/kit.h"

#define STEPS_PER_MOOD 1024

void game_fail(struct game *game, const char *what)
{
    if (atomic_exchange(&game->is_failed, true))
        return;
    printf("%s: wrong: %s\n", what, moiety_last_error_message());
}

bool game_takes_plant(struct game *game, enum plant plant)
{
    enum plant expected = plant;
    return atomic_load_explicit(&game->plant, memory_order_relaxed) == plant &&
           atomic_compare_exchange_strong_explicit(
               &game->plant, &expected, PLANT_NOTHING, memory_order_relaxed,
               memory_order_relaxed);
}

moiety_stream player_choose_stream(struct player *player)
{
    uint32_t way = random_below(&player->random, 64);
    switch (way) {
    case 0:
    case 1:
        return MOIETY_STREAM_DONE;
    case 2:
    case 3:
        return MOIETY_STREAM_ANY;
    case 4:
        return MOIETY_STREAM_LEGACY;
    case 5:
    case 6:
        return MOIETY_STREAM_PER_THREAD;
    default:
        break;
    }
    if (way < 40)
        return player->own;
    return player->game
        ->streams[random_below(&player->random, player->game->stream_count)];
}

static void replace_stream(struct player *player)
{
    if (moiety_pool_retire_stream(player->game->pool, player->own) != MOIETY_OK)
        game_fail(player->game, "moiety_pool_retire_stream");
    MUST(cu.cuStreamDestroy(player->own));
    player->own = kit_create_stream(random_next(&player->random));
}

static void set_guard(struct player *player, bool is_wanted)
{
    if (player->has_guard == is_wanted)
        return;
    player->has_guard = is_wanted;
    if ((is_wanted ? moiety_capture_guard_begin()
                   : moiety_capture_guard_end()) != MOIETY_OK)
        game_fail(player->game, "a capture guard");
}

static void look_at_pool(struct player *player)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    if (moiety_pool_get_stats(player->game->pool, &stats) != MOIETY_OK)
        game_fail(player->game, "moiety_pool_get_stats");
    if (stats.reserved_bytes_peak > stats.limit_bytes)
        game_fail(player->game, "the limit");
}

static void trim(struct player *player)
{
    uint64_t share_bytes = player->game->share_bytes;
    if (moiety_pool_trim(player->game->pool, share_bytes, NULL) != MOIETY_OK)
        game_fail(player->game, "moiety_pool_trim");
}

/* There is no work, so without this every event would be over at once. */
static void hold_something(struct player *player)
{
    struct game *game = player->game;
    uint32_t index = random_below(&player->random, game->stream_count);
    hold_stream(&game->holds, index, game->streams[index],
                100 + random_below(&player->random, 4000));
}

/* What it would like to have: few blocks or many, little memory or more than
 * its share. */
static void change_mood(struct player *player)
{
    uint64_t *random = &player->random;
    uint32_t order = 1 + random_below(random, 12);
    player->hand_target = 1 + random_below(random, UINT32_C(1) << order);
    player->hand_bytes_max =
        player->game->share_bytes / 16 * (1 + random_below(random, 20));
    set_guard(player, random_once_in(random, 64));
    if (random_once_in(random, 4))
        hold_something(player);
    if (random_once_in(random, 8))
        replace_stream(player);
    if (random_once_in(random, 8))
        look_at_pool(player);
    if (random_once_in(random, 16))
        trim(player);
    if (random_once_in(random, 8))
        player_call_badly(player);
}

static void step(struct player *player)
{
    bool is_rich = player->hand_count >= player->hand_target ||
                   player->hand_bytes >= player->hand_bytes_max;
    /* Mostly towards what it would like, but not always. */
    if (is_rich != random_once_in(&player->random, 8) && player->hand_count) {
        if (random_once_in(&player->random, 128))
            player_free_some(player);
        else
            player_free_one(player);
    } else if (player->hand_count < PLAYER_HAND) {
        player_allocate(player);
    }
}

void player_play(struct player *player, uint64_t steps)
{
    struct game *game = player->game;
    MUST(cu.cuCtxSetCurrent(game->context));
    for (uint64_t i = 0; i < steps && !atomic_load(&game->is_drained); i++) {
        if (i % STEPS_PER_MOOD == 0)
            change_mood(player);
        step(player);
    }
    set_guard(player, false);
}

void player_drain(struct player *player)
{
    MUST(cu.cuCtxSetCurrent(player->game->context));
    while (player->hand_count)
        player_free_plainly(player, player->hand[--player->hand_count]);
    player->hand_bytes = 0;
    for (uint32_t i = 0; i < TABLE_PLACES; i++) {
        packed_block block = atomic_exchange(&player->game->table[i], 0);
        if (block)
            player_free_plainly(player, block);
    }
}

void player_init(struct player *player, struct game *game, uint32_t index,
                 uint64_t seed)
{
    player->game = game;
    player->index = index;
    player->random = random_start(seed, index);
    player->own = kit_create_stream(random_next(&player->random));
    MUST(cu.cuEventCreate(&player->event, CU_EVENT_DISABLE_TIMING));
}

void player_fini(struct player *player)
{
    if (moiety_pool_retire_stream(player->game->pool, player->own) != MOIETY_OK)
        game_fail(player->game, "moiety_pool_retire_stream");
    MUST(cu.cuStreamDestroy(player->own));
    MUST(cu.cuEventDestroy(player->event));
}
