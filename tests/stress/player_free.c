/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/stress/player.h"
#include "tests/truth/kit.h"

#define BATCH_MAX 64

uint64_t player_address(const struct player *player, packed_block block)
{
    return player->game->map.base + (block >> 32) * MAP_GRAIN_BYTES;
}

size_t player_size(packed_block block)
{
    return (size_t)(block & UINT32_MAX);
}

static void expect_ok(struct player *player, moiety_status status,
                      const char *call)
{
    if (status != MOIETY_OK)
        game_fail(player->game, call);
}

/* Takes a block out of the hand at random. */
static packed_block take_out(struct player *player)
{
    uint32_t index = random_below(&player->random, player->hand_count);
    packed_block block = player->hand[index];
    player->hand[index] = player->hand[--player->hand_count];
    player->hand_bytes -= player_size(block);
    return block;
}

/* The books are closed before the pool has the block: from then on it may be
 * anybody's. */
static void close_books(struct player *player, packed_block block)
{
    struct game *game = player->game;
    size_t usable_bytes = 0;
    expect_ok(player,
              moiety_usable_size(game->pool, player_address(player, block),
                                 &usable_bytes),
              "moiety_usable_size");
    atomic_fetch_add_explicit(&player->operations, 1, memory_order_relaxed);
    /* A planted overlap: the pool gets a block that the map says is in use. */
    if (!game_takes_plant(game, PLANT_OVERLAP))
        map_release(&game->map, player_address(player, block), usable_bytes);
}

void player_free_plainly(struct player *player, packed_block block)
{
    moiety_pool *pool = player->game->pool;
    CUdeviceptr address = player_address(player, block);
    close_books(player, block);
    if (random_below(&player->random, 2))
        expect_ok(player,
                  moiety_free(pool, address, player_choose_stream(player)),
                  "moiety_free");
    else
        expect_ok(player,
                  moiety_free_sized(pool, address, player_size(block),
                                    player_choose_stream(player)),
                  "moiety_free_sized");
}

static void free_recorded(struct player *player, packed_block block)
{
    moiety_stream user = player_choose_stream(player);
    if (user != MOIETY_STREAM_DONE)
        expect_ok(player,
                  moiety_record_use(player->game->pool,
                                    player_address(player, block), user),
                  "moiety_record_use");
    player_free_plainly(player, block);
}

static void free_after_event(struct player *player, packed_block block)
{
    CUdeviceptr address = player_address(player, block);
    close_books(player, block);
    MUST(cu.cuEventRecord(player->event, player->own));
    expect_ok(player,
              moiety_free_on_event(player->game->pool, address, player->event),
              "moiety_free_on_event");
}

/* Puts a block on the table, and gets one that another player had, perhaps. */
static void swap(struct player *player, packed_block block)
{
    uint32_t place = random_below(&player->random, TABLE_PLACES);
    block = atomic_exchange(&player->game->table[place], block);
    if (!block)
        return;
    player->hand[player->hand_count++] = block;
    player->hand_bytes += player_size(block);
}

void player_free_one(struct player *player)
{
    if (!player->hand_count)
        return;
    packed_block block = take_out(player);
    if (game_takes_plant(player->game, PLANT_LOSS)) {
        close_books(player, block);
        return;
    }
    uint32_t way = random_below(&player->random, 64);
    if (way < 4)
        swap(player, block);
    else if (way == 4)
        free_recorded(player, block);
    else if (way == 5)
        free_after_event(player, block);
    else
        player_free_plainly(player, block);
}

void player_free_some(struct player *player)
{
    CUdeviceptr address[BATCH_MAX];
    size_t count = 0;
    size_t freed = 0;
    while (player->hand_count && count < BATCH_MAX) {
        packed_block block = take_out(player);
        close_books(player, block);
        address[count++] = player_address(player, block);
    }
    expect_ok(player,
              moiety_free_batch(player->game->pool, address, count,
                                player_choose_stream(player), &freed),
              "moiety_free_batch");
    if (freed != count)
        game_fail(player->game, "the count of moiety_free_batch");
}

/* Calls that must be refused, and must change nothing. */
void player_call_badly(struct player *player)
{
    moiety_pool *pool = player->game->pool;
    if (!player->hand_count)
        return;
    packed_block block = player->hand[player->hand_count - 1];
    CUdeviceptr address = player_address(player, block);
    size_t usable_bytes = 0;
    if (moiety_usable_size(pool, address, &usable_bytes) != MOIETY_OK ||
        moiety_free_sized(pool, address, usable_bytes * 2 + 4096,
                          player->own) != MOIETY_E_INVALID)
        game_fail(player->game, "a free with a wrong size");
    if (usable_bytes > MAP_GRAIN_BYTES &&
        moiety_free(pool, address + MAP_GRAIN_BYTES, player->own) !=
            MOIETY_E_INVALID)
        game_fail(player->game, "a free inside a block");
    if (moiety_free(pool, 4096, player->own) != MOIETY_E_FOREIGN)
        game_fail(player->game, "a free of a foreign address");
    if (moiety_free(pool, 0, player->own) != MOIETY_OK)
        game_fail(player->game, "a free of nothing");
}
