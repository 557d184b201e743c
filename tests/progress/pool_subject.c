/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/progress/pool_subject.h"

#include <pthread.h>
#include <stdlib.h>

#include "moiety/heap.h"
#include "moiety/history.h"
#include "moiety/pool.h"
#include "moiety/private.h"
#include "tests/progress/freeze.h"
#include "tests/support/tools/pools.h"
#include "tests/support/tools/random.h"
#include "tests/support/tools/stage.h"

#define MIB (UINT64_C(1) << 20)
/* One segment, and room for those that only the roaming thread asks for: it has
 * so many at a time that every later visit to growing is reached. */
#define SEGMENT_BYTES (128 * MIB)
#define SEGMENTS_ROAMED 40U
#define LIMIT_BYTES ((SEGMENTS_ROAMED + 2) * SEGMENT_BYTES)
#define HAND_MAX 160U
#define BATCH_MAX 16U
#define SHARED_STREAMS 2U
/* The stream that the roaming thread retires. */
#define MORTAL_STREAM 2U

struct player {
    uint64_t random;
    moiety_devptr hand[HAND_MAX];
    uint32_t hand_count;
    bool is_giving; /* until the hand is empty: bursts pass every cache */
};

struct game {
    moiety_pool *pool;
    bool is_mapped;
    struct stage stage;
    struct player players[PROGRESS_THREADS];
    moiety_devptr roamed[SEGMENTS_ROAMED]; /* the roaming thread's */
    uint32_t roamed_count;
};

/* Calls whose success is not what is asked here. */
static void attempt(moiety_status status)
{
    (void)status;
}

static uint32_t choose(struct player *player, uint32_t bound)
{
    return random_below(&player->random, bound);
}

static moiety_stream choose_stream(struct game *game, struct player *player)
{
    return game->stage.streams[choose(player, SHARED_STREAMS)].handle;
}

/* Any will do, since nothing is ever queued. */
static moiety_stream choose_end(struct game *game, struct player *player)
{
    switch (choose(player, 16)) {
    case 0:
        return MOIETY_STREAM_ANY;
    case 1:
        return MOIETY_STREAM_DONE;
    default:
        return choose_stream(game, player);
    }
}

static bool fill_hand(struct game *game, struct player *player)
{
    size_t bytes = (size_t)512 << (choose(player, 3) * 2);
    moiety_stream stream = choose_stream(game, player);
    uint32_t count = choose(player, 4) ? 1 : BATCH_MAX;
    if (moiety_alloc_batch(game->pool, bytes, stream, count,
                           player->hand + player->hand_count) != MOIETY_OK)
        return false;
    player->hand_count += count;
    player->is_giving = player->hand_count + BATCH_MAX > HAND_MAX;
    return true;
}

static bool give_one(struct game *game, struct player *player)
{
    moiety_devptr address = player->hand[--player->hand_count];
    player->is_giving = player->is_giving && player->hand_count;
    /* As often as not there is no room. */
    if (choose(player, 4) == 0)
        attempt(moiety_resize(game->pool, address,
                              (size_t)512 << choose(player, 6),
                              choose_stream(game, player)));
    return moiety_free(game->pool, address, choose_end(game, player)) ==
           MOIETY_OK;
}

static bool work(void *state, unsigned worker, bool is_locked)
{
    struct game *game = state;
    struct player *player = &game->players[worker];
    (void)is_locked;
    if (player->is_giving || (player->hand_count && choose(player, 3) == 0))
        return give_one(game, player);
    return fill_hand(game, player);
}

/* A stream comes, is used and goes; for a while it is held back, so that
 * batches are found waiting. */
static void use_mortal_stream(struct game *game)
{
    moiety_stream stream = game->stage.streams[MORTAL_STREAM].handle;
    moiety_devptr blocks[HAND_MAX];
    if (moiety_alloc_batch(game->pool, 512, stream, HAND_MAX, blocks))
        return;
    (void)stage_hold(&game->stage, MORTAL_STREAM);
    attempt(moiety_free_batch(game->pool, blocks, HAND_MAX, stream, NULL));
    /* Keeps every segment: to give one back waits for all streams. */
    attempt(moiety_pool_trim(game->pool, LIMIT_BYTES, NULL));
    (void)stage_release(&game->stage, MORTAL_STREAM);
    attempt(moiety_pool_retire_stream(game->pool, stream));
    (void)stage_replace(&game->stage, MORTAL_STREAM);
}

struct child {
    struct game *game;
    unsigned thread;
    struct freeze_wish *wish;
};

static void *live_shortly(void *argument)
{
    const struct child *child = argument;
    (void)stage_enter();
    freeze_follow(child->wish);
    for (unsigned i = 0; i < 600; i++)
        (void)work(child->game, child->thread, false);
    return NULL;
}

/* A thread comes and goes, and may stop in its parent's place. */
static void raise_child(struct game *game, unsigned thread)
{
    struct child child = {game, thread, freeze_followed()};
    pthread_t id;
    freeze_follow(NULL);
    if (pthread_create(&id, NULL, live_shortly, &child) == 0)
        (void)pthread_join(id, NULL);
    freeze_follow(child.wish);
}

static void use_twice(struct game *game, struct player *player)
{
    moiety_devptr block;
    moiety_stream first = game->stage.streams[0].handle;
    if (moiety_alloc(game->pool, 512, first, &block))
        return;
    attempt(
        moiety_record_use(game->pool, block, game->stage.streams[1].handle));
    moiety_event event =
        choose(player, 2) ? stage_record(&game->stage, 0) : NULL;
    if (event)
        attempt(moiety_free_on_event(game->pool, block, event));
    else
        attempt(moiety_free(game->pool, block, first));
    if (event)
        stage_forget(event);
}

static void give_roamed(struct game *game)
{
    while (game->roamed_count)
        attempt(moiety_free(game->pool, game->roamed[--game->roamed_count],
                            MOIETY_STREAM_DONE));
}

/* More than there is room for: the pool grows. Then nothing of it is used, and
 * the pool may shrink again. */
static void use_much(struct game *game)
{
    if (game->roamed_count == SEGMENTS_ROAMED ||
        moiety_alloc(game->pool, SEGMENT_BYTES, MOIETY_STREAM_ANY,
                     &game->roamed[game->roamed_count]))
        give_roamed(game);
    else
        game->roamed_count++;
}

/* Every second of many segments is free, and two in a row are wanted: the pieces
 * of others move. */
static void use_two_in_a_row(struct game *game)
{
    moiety_devptr block;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < game->roamed_count; i++) {
        if (i % 2)
            attempt(
                moiety_free(game->pool, game->roamed[i], MOIETY_STREAM_DONE));
        else
            game->roamed[kept++] = game->roamed[i];
    }
    game->roamed_count = kept;
    if (moiety_alloc(game->pool, 2 * SEGMENT_BYTES, MOIETY_STREAM_ANY,
                     &block) == MOIETY_OK)
        attempt(moiety_free(game->pool, block, MOIETY_STREAM_DONE));
}

/* More than there can be while others hold some: their caches are asked for. A
 * thread that has lost them begins anew, which takes locks. */
static void ask_for_all(struct game *game)
{
    moiety_devptr block;
    if (alloc_no_wait(game->pool, LIMIT_BYTES, game->stage.streams[0].handle,
                      &block) == MOIETY_OK)
        attempt(moiety_free(game->pool, block, MOIETY_STREAM_DONE));
}

/* Memory that goes into an arena and comes back. */
static void use_arena(struct game *game)
{
    moiety_stream stream = game->stage.streams[0].handle;
    moiety_private arena;
    if (create_arena(game->pool, 8 * MIB, &arena))
        return;
    for (unsigned i = 0; i < 4; i++) {
        moiety_devptr block;
        if (alloc_of_arena(arena, 2 * MIB, stream, &block))
            continue;
        attempt(moiety_free(game->pool, block, stream));
        attempt(moiety_private_trim(arena, NULL));
    }
    attempt(moiety_private_destroy(arena));
}

/* Memory that goes away and comes back. */
static void pause_arena(struct game *game)
{
    moiety_private_options options = {sizeof(options), MOIETY_PRIVATE_PAUSABLE,
                                      8 * MIB};
    moiety_stream stream = game->stage.streams[0].handle;
    moiety_private arena;
    moiety_devptr block;
    if (moiety_private_create(game->pool, &options, &arena))
        return;
    if (alloc_of_arena(arena, 2 * MIB, stream, &block) == MOIETY_OK) {
        attempt(moiety_private_pause(arena, MOIETY_PAUSE_KEEP_CONTENTS));
        attempt(moiety_private_resume(arena));
        attempt(moiety_free(game->pool, block, stream));
    }
    attempt(moiety_private_destroy(arena));
}

static void look_back(struct game *game)
{
    moiety_history_entry entries[16];
    moiety_history_summary summary = {.struct_size = sizeof(summary)};
    attempt(moiety_history_read(game->pool, entries, 16, &summary));
}

static void roam(void *state, unsigned thread, bool is_locked)
{
    struct game *game = state;
    struct player *player = &game->players[thread];
    switch (choose(player, 256)) {
    case 0:
        use_mortal_stream(game);
        break;
    case 1:
    case 6:
    case 7:
        raise_child(game, thread);
        break;
    case 2:
        use_twice(game, player);
        break;
    case 3:
        if (game->is_mapped && game->roamed_count == SEGMENTS_ROAMED)
            use_two_in_a_row(game);
        else
            use_much(game);
        break;
    case 4:
        /* What gives segments back takes others' caches first: see above. */
        attempt(moiety_pool_trim(
            game->pool, is_locked ? LIMIT_BYTES : SEGMENT_BYTES, NULL));
        break;
    case 5:
        attempt(moiety_capture_guard_begin());
        attempt(moiety_capture_guard_end());
        break;
    case 8:
        if (!is_locked)
            ask_for_all(game);
        break;
    case 9:
        look_back(game);
        break;
    case 10:
        use_arena(game);
        break;
    case 11:
        if (game->is_mapped)
            pause_arena(game);
        break;
    default:
        (void)work(game, thread, false);
    }
}

static void *create_game_of(uint32_t flags)
{
    struct game *game = calloc(1, sizeof(*game));
    moiety_pool_options options = driver_options();
    options.first_segment_bytes = SEGMENT_BYTES;
    options.largest_segment_bytes = SEGMENT_BYTES;
    options.limit_bytes = LIMIT_BYTES;
    options.thread_cache_bytes = MIB / 4;
    options.history_entries = 64;
    set_kind(&options, flags);
    if (!game || !stage_open() || !stage_init(&game->stage) ||
        moiety_pool_create(&options, &game->pool)) {
        free(game);
        return NULL;
    }
    game->is_mapped = flags & KIND_MAPPED;
    for (unsigned i = 0; i < PROGRESS_THREADS; i++)
        game->players[i].random = random_start(0, i);
    return game;
}

static void *create_game(void)
{
    return create_game_of(0);
}

static void *create_mapped_game(void)
{
    return create_game_of(KIND_MAPPED);
}

/* Meets every stream once, and every way to free. */
static void enter(void *state, unsigned thread)
{
    (void)stage_enter();
    for (unsigned i = 0; i < 500; i++)
        (void)work(state, thread, false);
}

static void leave(void *state, unsigned thread)
{
    struct game *game = state;
    struct player *player = &game->players[thread];
    while (player->hand_count)
        (void)give_one(game, player);
    if (thread == PROGRESS_WORKERS)
        give_roamed(game);
}

static const char *destroy_game(void *state)
{
    struct game *game = state;
    moiety_leaks leaks = {.struct_size = sizeof(leaks)};
    const char *damage = NULL;
    if (moiety_pool_destroy(game->pool, &leaks))
        damage = "the pool cannot be destroyed";
    else if (leaks.block_count)
        damage = "blocks are lost";
    stage_fini(&game->stage);
    free(game);
    return damage;
}

const struct progress_subject pool_subject = {
    create_game, enter, work, roam, leave, destroy_game,
};

const struct progress_subject mapped_pool_subject = {
    create_mapped_game, enter, work, roam, leave, destroy_game,
};
