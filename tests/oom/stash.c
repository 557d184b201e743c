/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Callbacks of all kinds: one gives blocks up, one takes some for a while, one
 * throws a cache of blocks away, and one that does nothing comes and goes.
 */
#include <stddef.h>

#include "moiety/oom.h"

#include "tests/oom/player.h"

#define STASH_BLOCKS 64U
#define STASH_BYTES ((size_t)64 << 10)

static _Atomic(moiety_devptr) stash[STASH_BLOCKS];
static _Atomic uint64_t calls; /* of those below, to take turns */

static void give(struct game *game, moiety_devptr address, moiety_stream stream)
{
    if (moiety_free(game->pool, address, stream) != MOIETY_OK)
        game_wrong(game, "moiety_free in a callback");
}

/* A block into the stash if the pool has one and there is room. */
static void keep_one(struct game *game)
{
    moiety_devptr address;
    moiety_status status =
        moiety_alloc(game->pool, STASH_BYTES, MOIETY_STREAM_ANY, &address);
    if (status != MOIETY_OK) {
        if (status != MOIETY_E_NO_DEVICE_MEMORY)
            game_wrong(game, "moiety_alloc in a callback");
        return;
    }
    uint64_t at = atomic_fetch_add(&calls, 1) % STASH_BLOCKS;
    address = atomic_exchange(&stash[at], address);
    if (address)
        give(game, address, MOIETY_STREAM_DONE);
}

static int give_one_up(moiety_pool *pool, uint64_t requested_bytes, void *user)
{
    struct game *game = user;
    (void)pool;
    (void)requested_bytes;
    uint64_t at = atomic_fetch_add(&game->callbacks, 1) % STASH_BLOCKS;
    moiety_devptr address = atomic_exchange(&stash[at], 0);
    if (!address)
        return 0;
    give(game, address, MOIETY_STREAM_DONE);
    return 1;
}

static int take_some(moiety_pool *pool, uint64_t requested_bytes, void *user)
{
    struct game *game = user;
    (void)pool;
    (void)requested_bytes;
    atomic_fetch_add(&game->callbacks, 1);
    keep_one(game);
    return 0;
}

static int throw_all_away(moiety_pool *pool, uint64_t requested_bytes,
                          void *user)
{
    struct game *game = user;
    int freed = 0;
    (void)pool;
    (void)requested_bytes;
    atomic_fetch_add(&game->callbacks, 1);
    for (unsigned i = 0; i < STASH_BLOCKS; i++) {
        moiety_devptr address = atomic_exchange(&stash[i], 0);
        if (address) {
            give(game, address, MOIETY_STREAM_ANY);
            freed = 1;
        }
    }
    return freed;
}

static int do_nothing(moiety_pool *pool, uint64_t requested_bytes, void *user)
{
    struct game *game = user;
    (void)pool;
    (void)requested_bytes;
    atomic_fetch_add(&game->callbacks, 1);
    return 1;
}

static void expect(struct game *game, moiety_status status, const char *what)
{
    if (status != MOIETY_OK)
        game_wrong(game, what);
}

void stash_init(struct game *game)
{
    expect(game, moiety_pool_add_oom_callback(game->pool, give_one_up, game),
           "moiety_pool_add_oom_callback");
    expect(game, moiety_pool_add_oom_callback(game->pool, take_some, game),
           "moiety_pool_add_oom_callback");
    expect(game, moiety_pool_add_oom_callback(game->pool, throw_all_away, game),
           "moiety_pool_add_oom_callback");
}

void stash_fini(struct game *game)
{
    expect(game, moiety_pool_remove_oom_callback(game->pool, take_some, game),
           "moiety_pool_remove_oom_callback");
    for (unsigned i = 0; i < STASH_BLOCKS; i++) {
        moiety_devptr address = atomic_exchange(&stash[i], 0);
        if (address)
            give(game, address, MOIETY_STREAM_DONE);
    }
}

void stash_stir(struct game *game)
{
    /* Two may do it at once: then the second is refused. */
    moiety_status added =
        moiety_pool_add_oom_callback(game->pool, do_nothing, game);
    keep_one(game);
    if (added == MOIETY_OK)
        expect(game,
               moiety_pool_remove_oom_callback(game->pool, do_nothing, game),
               "moiety_pool_remove_oom_callback");
}
