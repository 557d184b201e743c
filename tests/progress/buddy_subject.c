/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/progress/buddy_subject.h"

#include <stdlib.h>

#include "tests/support/buddy_probe.h"
#include "tests/support/map_probe.h"
#include "tests/support/tools/random.h"

#define PAGES 4U
/* Pages behind them that come and go. */
#define GUEST_PAGES 2U
#define HAND_MAX 24U
/* What one thread holds at most: all together could have them all. */
#define HELD_GRAINS_MAX PROBE_PAGE_GRAINS
#define SMALL_GRAINS_MAX 64U
#define BATCH_MAX 8U

struct interval {
    uint64_t start;
    uint64_t grains;
};

struct player {
    uint64_t random;
    struct buddy_probe_affinity affinity;
    struct interval hand[HAND_MAX];
    uint32_t hand_count;
    uint64_t held_grains;
};

struct game {
    struct moietyi_buddy *buddy;
    struct moietyi_maps *maps; /* of the stream that all threads use */
    struct player players[PROGRESS_THREADS];
    bool is_guest_here; /* the roaming thread's alone */
};

static uint32_t choose(struct player *player, uint32_t bound)
{
    return random_below(&player->random, bound);
}

static void *create_game(void)
{
    struct game *game = calloc(1, sizeof(*game));
    if (!game || buddy_probe_create(PAGES + GUEST_PAGES, &game->buddy)) {
        free(game);
        return NULL;
    }
    game->maps = map_probe_create(game->buddy);
    if (!game->maps) {
        buddy_probe_destroy(game->buddy);
        free(game);
        return NULL;
    }
    buddy_probe_add(game->buddy, 0, PAGES);
    for (unsigned i = 0; i < PROGRESS_THREADS; i++)
        game->players[i].random = random_start(0, i);
    return game;
}

static void hold(struct player *player, uint64_t start, uint64_t grains)
{
    player->hand[player->hand_count++] = (struct interval){start, grains};
    player->held_grains += grains;
}

static bool give_one(struct game *game, struct player *player)
{
    uint32_t index = choose(player, player->hand_count);
    struct interval one = player->hand[index];
    player->hand[index] = player->hand[--player->hand_count];
    player->held_grains -= one.grains;
    if (choose(player, 2))
        return map_probe_give(game->maps, one.start, one.grains) == PROBE_GIVEN;
    const struct buddy_probe_affinity *affinity =
        choose(player, 4) ? &player->affinity : NULL;
    return buddy_probe_give(game->buddy, affinity, one.start, one.grains);
}

static bool take_some(struct game *game, struct player *player)
{
    uint32_t grains =
        1 + choose(player, choose(player, 8) ? SMALL_GRAINS_MAX
                                             : PROBE_TAKE_GRAINS_MAX);
    uint32_t count = 1 + choose(player, BATCH_MAX);
    uint64_t starts[BATCH_MAX];
    uint32_t taken = buddy_probe_take(game->buddy, &player->affinity, grains,
                                      count, 1, starts);
    for (uint32_t i = 0; i < taken; i++)
        hold(player, starts[i], grains);
    return taken != 0;
}

static bool take_from_words(struct game *game, struct player *player)
{
    uint32_t grains = 1 + choose(player, SMALL_GRAINS_MAX / 4);
    uint64_t starts[BATCH_MAX];
    uint32_t count = 1 + choose(player, BATCH_MAX);
    uint32_t taken =
        choose(player, 2)
            ? map_probe_take_gathered(game->maps, grains, count, starts)
            : map_probe_take(game->maps, grains, count, 1, starts);
    for (uint32_t i = 0; i < taken; i++)
        hold(player, starts[i], grains);
    return taken != 0;
}

/* What is free there, of the stream's memory or done. A search for it may wait
 * for the run lock; a claim does not. */
static bool claim_some(struct game *game, struct player *player)
{
    const struct map_probe_view view = {game->buddy, game->maps, false, false};
    uint64_t start = choose(player, PAGES * PROBE_PAGE_GRAINS);
    uint64_t grains = 1 + choose(player, 3 * SMALL_GRAINS_MAX);
    if (start + grains > PAGES * PROBE_PAGE_GRAINS ||
        !map_probe_view_claim(&view, start, grains))
        return false;
    hold(player, start, grains);
    return true;
}

static bool may_take(const struct player *player)
{
    return player->hand_count + BATCH_MAX <= HAND_MAX &&
           player->held_grains < HELD_GRAINS_MAX;
}

/* Everything that a worker does is lock-free, whoever holds which lock. */
static bool work(void *state, unsigned worker, bool is_locked)
{
    struct game *game = state;
    struct player *player = &game->players[worker];
    (void)is_locked;
    if (choose(player, 64) == 0)
        buddy_probe_drop_affinity(game->buddy, &player->affinity);
    if (choose(player, 256) == 0)
        buddy_probe_trim(game->buddy);
    if (player->hand_count && (!may_take(player) || choose(player, 2)))
        return give_one(game, player);
    switch (choose(player, 4)) {
    case 0:
        return take_from_words(game, player);
    case 1:
        return claim_some(game, player);
    default:
        return take_some(game, player);
    }
}

static void move_guest(struct game *game)
{
    if (game->is_guest_here) {
        game->is_guest_here =
            !buddy_probe_remove(game->buddy, PAGES, GUEST_PAGES);
    } else {
        buddy_probe_add(game->buddy, PAGES, GUEST_PAGES);
        game->is_guest_here = true;
    }
}

/* Of one page or two: it is for the second that a lock is held. */
static void take_a_run(struct game *game, struct player *player)
{
    uint64_t chunks =
        PROBE_PAGE_CHUNKS / 2 + 1 + choose(player, PROBE_PAGE_CHUNKS);
    uint64_t start;
    if (buddy_probe_take_run(game->buddy, chunks, &start))
        hold(player, start, chunks * PROBE_CHUNK_GRAINS);
}

static void take_a_last_one(struct game *game, struct player *player)
{
    uint32_t grains = 1 + choose(player, SMALL_GRAINS_MAX);
    uint64_t start;
    if (buddy_probe_take_last(game->buddy, grains, 1, &start))
        hold(player, start, grains);
}

/* By a good fit or the best; at times as if others had failed to get theirs, so
 * that it is searched for under the lock. */
static void take_a_view(struct game *game, struct player *player)
{
    const struct map_probe_view view = {game->buddy, game->maps, false,
                                        choose(player, 2)};
    uint64_t grains = 1 + choose(player, PROBE_PAGE_GRAINS / 2);
    bool is_contended = choose(player, 2);
    uint64_t start;
    map_probe_contend(game->buddy, is_contended);
    if (map_probe_view_take(&view, grains, 1, choose(player, 2), &start))
        hold(player, start, grains);
    map_probe_contend(game->buddy, false);
}

/* The roaming thread alone has the stream's role. */
static void move_epoch(struct game *game)
{
    if (map_probe_grains(game->maps, PROBE_AGEING))
        map_probe_drain(game->maps, PROBE_AGEING);
    else
        map_probe_close(game->maps);
}

static void roam(void *state, unsigned thread, bool is_locked)
{
    (void)is_locked;
    struct game *game = state;
    struct player *player = &game->players[thread];
    uint32_t choice = choose(player, 64);
    if (choice == 0)
        move_guest(game);
    else if (choice == 1 && may_take(player))
        take_a_run(game, player);
    else if (choice == 2 && may_take(player))
        take_a_last_one(game, player);
    else if (choice == 3 && may_take(player))
        take_a_view(game, player);
    else if (choice < 8)
        move_epoch(game);
    else
        (void)work(game, thread, false);
}

static void enter(void *state, unsigned thread)
{
    (void)work(state, thread, false);
}

static void leave(void *state, unsigned thread)
{
    struct game *game = state;
    struct player *player = &game->players[thread];
    while (player->hand_count)
        (void)give_one(game, player);
    buddy_probe_drop_affinity(game->buddy, &player->affinity);
}

static const char *find_damage(const struct game *game)
{
    uint32_t pages = PAGES + (game->is_guest_here ? GUEST_PAGES : 0);
    const struct moietyi_maps *maps[] = {game->maps};
    uint64_t at;
    const char *broken = map_probe_check(maps, 1, &at);
    map_probe_drain(game->maps, PROBE_AGEING);
    map_probe_drain(game->maps, PROBE_FRESH);
    if (!broken)
        broken = buddy_probe_check(game->buddy, &at);
    if (!broken)
        broken = buddy_probe_check_merged(game->buddy, &at);
    if (broken)
        return broken;
    return buddy_probe_longest_page_run(game->buddy) == pages
               ? NULL
               : "not all came back whole";
}

static const char *destroy_game(void *state)
{
    struct game *game = state;
    const char *damage = find_damage(game);
    map_probe_destroy(game->maps);
    buddy_probe_destroy(game->buddy);
    free(game);
    return damage;
}

const struct progress_subject buddy_subject = {
    create_game, enter, work, roam, leave, destroy_game,
};
