/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/stress/player.h"
#include "tests/support/tools/pools.h"
#include "tests/truth/kit.h"

#define BATCH_MAX 64
#define BATCH_BYTES_MAX ((size_t)64 << 10)

/* Rare ways of allocating, each once in so many times. */
enum way { BATCH, ALIGNED, TRY, WAYS = 64 };

static size_t choose_size(struct player *player)
{
    uint64_t *random = &player->random;
    uint32_t order = 6 + random_below(random, 11); /* up to 128 KiB */
    if (random_once_in(random, 256))
        order = 17 + random_below(random, 6); /* up to 8 MiB */
    return ((size_t)1 << order) + random_below(random, (uint32_t)1 << order);
}

static void keep(struct player *player, CUdeviceptr address, size_t size_bytes)
{
    struct game *game = player->game;
    size_t usable_bytes = 0;
    if (moiety_usable_size(game->pool, address, &usable_bytes) != MOIETY_OK ||
        usable_bytes < size_bytes)
        game_fail(game, "moiety_usable_size");
    /* Owner 0 means nobody. */
    map_claim(&game->map, address, usable_bytes, player->index + 1);
    uint64_t grain = (address - game->map.base) / MAP_GRAIN_BYTES;
    player->hand[player->hand_count++] = grain << 32 | size_bytes;
    player->hand_bytes += size_bytes;
    atomic_fetch_add_explicit(&player->operations, 1, memory_order_relaxed);
}

static void note_denied(struct player *player, moiety_status status,
                        bool may_be_busy)
{
    atomic_fetch_add_explicit(&player->denied, 1, memory_order_relaxed);
    if (status != MOIETY_E_NO_DEVICE_MEMORY &&
        !(status == MOIETY_E_WOULD_BLOCK && may_be_busy))
        game_fail(player->game, "an allocation");
    /* Everybody is short of memory: make room. */
    for (uint32_t i = player->hand_count / 2; i > 0; i--)
        player_free_one(player);
}

static void allocate_batch(struct player *player, size_t size_bytes)
{
    CUdeviceptr address[BATCH_MAX];
    size_t count = 1 + random_below(&player->random, BATCH_MAX);
    if (size_bytes > BATCH_BYTES_MAX)
        size_bytes = BATCH_BYTES_MAX;
    if (count > PLAYER_HAND - player->hand_count)
        count = PLAYER_HAND - player->hand_count;
    moiety_status status =
        moiety_alloc_batch(player->game->pool, size_bytes,
                           player_choose_stream(player), count, address);
    if (status != MOIETY_OK)
        note_denied(player, status, false);
    else
        for (size_t i = 0; i < count; i++)
            keep(player, address[i], size_bytes);
}

static moiety_status allocate_aligned(struct player *player, size_t size_bytes,
                                      CUdeviceptr *out)
{
    size_t alignment_bytes = (size_t)1 << random_below(&player->random, 22);
    moiety_status status =
        alloc_aligned(player->game->pool, size_bytes, alignment_bytes,
                      player_choose_stream(player), out);
    if (status == MOIETY_OK && *out % alignment_bytes)
        game_fail(player->game, "the alignment of a block");
    return status;
}

void player_allocate(struct player *player)
{
    moiety_pool *pool = player->game->pool;
    size_t size_bytes = choose_size(player);
    uint32_t way = random_below(&player->random, WAYS);
    CUdeviceptr address = 0;
    moiety_status status;
    if (way == BATCH) {
        allocate_batch(player, size_bytes);
        return;
    }
    if (way == ALIGNED)
        status = allocate_aligned(player, size_bytes, &address);
    else if (way == TRY)
        status = alloc_no_wait(pool, size_bytes, player_choose_stream(player),
                               &address);
    else
        status = moiety_alloc(pool, size_bytes, player_choose_stream(player),
                              &address);
    if (status == MOIETY_OK)
        keep(player, address, size_bytes);
    else
        note_denied(player, status, way == TRY);
}
