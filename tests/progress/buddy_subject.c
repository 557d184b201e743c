/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/progress/buddy_subject.h"

#include <stdlib.h>

#include "tests/support/buddy_probe.h"

#define PAGES 8U
/* Pages behind them that come and go. */
#define GUEST_PAGES 2U
#define HAND_MAX 24U
/* What one thread holds at most: all together leave half of the pages. */
#define HELD_GRAINS_MAX PROBE_PAGE_GRAINS
#define SMALL_GRAINS_MAX 64U
#define BATCH_MAX 8U

struct interval {
    uint64_t start;
    uint64_t grains;
};

struct player {
    uint64_t random;
    struct buddy_probe_home home;
    struct interval hand[HAND_MAX];
    uint32_t hand_count;
    uint64_t held_grains;
};

struct game {
    struct binadei_buddy *buddy;
    struct player players[PROGRESS_THREADS];
    bool is_guest_here; /* the roaming thread's alone */
};

static uint32_t choose(struct player *player, uint32_t bound)
{
    player->random =
        player->random * UINT64_C(6364136223846793005) + UINT64_C(1442695);
    return (uint32_t)(player->random >> 33) % bound;
}

static void *create_game(void)
{
    struct game *game = calloc(1, sizeof(*game));
    if (!game || buddy_probe_create(PAGES + GUEST_PAGES, &game->buddy)) {
        free(game);
        return NULL;
    }
    buddy_probe_add(game->buddy, 0, PAGES);
    for (unsigned i = 0; i < PROGRESS_THREADS; i++)
        game->players[i].random = i;
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
    const struct buddy_probe_home *home =
        choose(player, 4) ? &player->home : NULL;
    return buddy_probe_give(game->buddy, home, one.start, one.grains);
}

static bool take_some(struct game *game, struct player *player)
{
    uint32_t grains =
        1 + choose(player, choose(player, 8) ? SMALL_GRAINS_MAX
                                             : PROBE_TAKE_GRAINS_MAX);
    uint32_t count = 1 + choose(player, BATCH_MAX);
    uint64_t starts[BATCH_MAX];
    uint32_t taken =
        buddy_probe_take(game->buddy, &player->home, grains, count, 1, starts);
    for (uint32_t i = 0; i < taken; i++)
        hold(player, starts[i], grains);
    return taken != 0;
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
        buddy_probe_leave_home(game->buddy, &player->home);
    if (choose(player, 256) == 0)
        buddy_probe_trim(game->buddy);
    if (player->hand_count && (!may_take(player) || choose(player, 2)))
        return give_one(game, player);
    return take_some(game, player);
}

static void move_guest(struct game *game)
{
    if (game->is_guest_here) {
        game->is_guest_here =
            !buddy_probe_withdraw(game->buddy, PAGES, GUEST_PAGES);
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
    if (buddy_probe_take_run(game->buddy, &player->home, chunks, &start))
        hold(player, start, chunks * PROBE_CHUNK_GRAINS);
}

static void take_a_last_one(struct game *game, struct player *player)
{
    uint32_t grains = 1 + choose(player, SMALL_GRAINS_MAX);
    uint64_t start;
    if (buddy_probe_take_last_resort(game->buddy, grains, 1, &start))
        hold(player, start, grains);
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
    buddy_probe_leave_home(game->buddy, &player->home);
}

static const char *find_damage(const struct game *game)
{
    uint32_t pages = PAGES + (game->is_guest_here ? GUEST_PAGES : 0);
    uint64_t at;
    const char *broken = buddy_probe_check(game->buddy, &at);
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
    buddy_probe_destroy(game->buddy);
    free(game);
    return damage;
}

const struct progress_subject buddy_subject = {
    create_game, enter, work, roam, leave, destroy_game,
};
