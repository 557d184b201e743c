/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The races themselves: how memory is dealt before a round, and what each of
 * its threads does.
 */
#include "tests/buddy/race.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "tests/buddy/race_arena.h"

struct race {
    const char *name;
    uint32_t first_page;
    uint32_t pages; /* at first */
    uint32_t capacity;
    uint32_t thinning; /* one round in so many: they cost more */
    void (*deal)(struct race_arena *arena);
    /* What each thread does, as many threads as there are entries. */
    void (*play[RACE_PLAYERS_MAX])(struct race_player *player);
};

/* How memory is dealt. */

static void deal_nothing(struct race_arena *arena)
{
    (void)arena;
}

static void deal_chunk(struct race_arena *arena)
{
    race_narrow(arena, 1);
}

static void deal_two_chunks(struct race_arena *arena)
{
    race_narrow(arena, 2);
}

static void deal_four_chunks(struct race_arena *arena)
{
    race_narrow(arena, 4);
}

/* One chunk, all of it in pairs in the first player's hand. */
static void deal_pairs(struct race_arena *arena)
{
    race_narrow(arena, 1);
    while (race_take(&arena->players[0], NULL, 2, 1))
        continue;
}

/* One chunk, in single grains. */
static void deal_singles(struct race_arena *arena)
{
    race_narrow(arena, 1);
    while (race_take(&arena->players[0], NULL, 1, 8))
        continue;
}

/* A unit cut in two: of grains, of chunks, or at any grain of a page. */
static void deal_halves(struct race_arena *arena)
{
    static const uint32_t units[] = {64, 4096, 4096};
    struct race_player *dealer = &arena->dealer;
    uint32_t unit = units[arena->round % 3];
    uint32_t cut = unit / 2;
    if (arena->round % 3 == 2)
        cut = 1 + race_choose(dealer, unit - 1);
    if (!race_take_run(dealer, PROBE_PAGE_CHUNKS))
        return;
    struct race_interval *page = &dealer->hand[dealer->hand_count - 1];
    uint64_t start = page->start;
    page->start += unit;
    page->grains -= unit;
    race_deal(arena, 0, start, cut);
    race_deal(arena, 1, start + cut, unit - cut);
}

/* A chunk of which two hold a half and nobody has the rest of the page. */
static void deal_half_chunks(struct race_arena *arena)
{
    race_narrow(arena, 1);
    (void)race_take(&arena->players[0], NULL, 32, 1);
    (void)race_take(&arena->players[1], NULL, 32, 1);
}

/* What players do. */

static void take_and_give(struct race_player *player,
                          struct buddy_probe_home *home, uint32_t grains_min,
                          uint32_t grains_max, uint32_t count)
{
    for (unsigned i = 0; i < 16; i++) {
        uint32_t grains =
            grains_min + race_choose(player, grains_max - grains_min + 1);
        if (!race_take(player, home, grains, count) || race_choose(player, 2))
            race_give_one(player, home);
    }
    race_give_all(player, home);
}

static void play_single(struct race_player *player)
{
    take_and_give(player, NULL, 1, 1, 1);
}

static void play_small(struct race_player *player)
{
    take_and_give(player, NULL, 1, 8, 1);
}

static void play_chunks(struct race_player *player)
{
    take_and_give(player, NULL, 64, 130, 1);
}

static void play_whole_chunk(struct race_player *player)
{
    take_and_give(player, NULL, 64, 64, 1);
}

static void play_batches(struct race_player *player)
{
    take_and_give(player, NULL, 1, 5, 16);
}

static void play_large(struct race_player *player)
{
    take_and_give(player, NULL, 1, PROBE_TAKE_GRAINS_MAX, 1);
}

static void play_at_home(struct race_player *player)
{
    take_and_give(player, &player->home, 1, 70, 2);
}

static void play_first_grain_at_home(struct race_player *player)
{
    for (unsigned i = 0; i < 16; i++) {
        (void)race_take(player, &player->home, 1, 1);
        race_give_all(player, &player->home);
    }
}

static void play_and_leave_home(struct race_player *player)
{
    for (unsigned i = 0; i < 4; i++) {
        take_and_give(player, &player->home, 1, 70, 2);
        buddy_probe_leave_home(player->arena->buddy, &player->home);
    }
}

static void play_give_each(struct race_player *player)
{
    while (player->hand_count)
        race_give_one(player, NULL);
}

/* Keeps one, so that the word stays open and its summaries are looked at. */
static void play_give_most(struct race_player *player)
{
    while (player->hand_count > 1)
        race_give_one(player, NULL);
}

/* The word is empty, has a grain, is empty again, and in the end has some. */
static void play_give_and_take_back(struct race_player *player)
{
    for (unsigned i = 0; i < 16; i++) {
        race_give_one(player, NULL);
        (void)race_take(player, NULL, 1, 1);
    }
    race_give_one(player, NULL);
    race_give_one(player, NULL);
}

static void play_give_pieces(struct race_player *player)
{
    uint32_t piece = 1 + race_choose(player, 2048);
    while (player->hand_count)
        race_give_in_pieces(player, piece);
}

/* Searches that fail, each in another plane, lower its hints. */
static void play_search_runs(struct race_player *player)
{
    static const uint32_t lengths[] = {40, 8, 12, 64, 1};
    for (unsigned i = 0; i < 20; i++) {
        if (race_take(player, NULL, lengths[i % 5], 1))
            race_give_one(player, NULL);
    }
}

static void play_search_one(struct race_player *player)
{
    for (unsigned i = 0; i < 40; i++) {
        if (race_take(player, NULL, 1, 1))
            race_give_one(player, NULL);
    }
}

static void play_last_resort(struct race_player *player)
{
    for (unsigned i = 0; i < 4; i++) {
        (void)race_take_last_resort(player, 1 + race_choose(player, 128));
        race_give_all(player, NULL);
    }
}

static void play_trim(struct race_player *player)
{
    for (unsigned i = 0; i < 8; i++)
        buddy_probe_trim(player->arena->buddy);
}

static void play_runs(struct race_player *player)
{
    for (unsigned i = 0; i < 6; i++) {
        uint32_t chunks = 60 + race_choose(player, 140);
        if (!race_take_run(player, chunks) || race_choose(player, 2))
            race_give_one(player, NULL);
    }
    race_give_all(player, NULL);
}

/* What is withdrawn is ours; then it comes again. */
static void play_withdraw(struct race_player *player)
{
    struct race_arena *arena = player->arena;
    for (unsigned i = 0; i < 6; i++) {
        uint32_t skipped = race_choose(player, arena->added_pages);
        uint32_t first = arena->first_page + skipped;
        uint32_t count = 1 + race_choose(player, arena->added_pages - skipped);
        uint64_t start = (uint64_t)first * PROBE_PAGE_GRAINS;
        uint64_t grains = (uint64_t)count * PROBE_PAGE_GRAINS;
        if (!buddy_probe_withdraw(arena->buddy, first, count))
            continue;
        race_mark(player, start, grains);
        race_unmark(player, start, grains);
        buddy_probe_add(arena->buddy, first, count);
    }
}

static void play_add(struct race_player *player)
{
    struct race_arena *arena = player->arena;
    if (arena->added_pages < arena->page_capacity)
        buddy_probe_add(arena->buddy, arena->first_page + arena->added_pages++,
                        1);
}

static const struct race races[] = {
    {"TakeVsGive", 0, 1, 1, 1, deal_pairs, {play_give_each, play_small}},
    {"TakeVsTake",
     0,
     1,
     1,
     1,
     deal_chunk,
     {play_single, play_single, play_single}},
    {"GiveVsGiveOfBuddies",
     0,
     1,
     1,
     1,
     deal_halves,
     {play_give_pieces, play_give_pieces}},
    {"MergeVsTake",
     0,
     1,
     1,
     1,
     deal_half_chunks,
     {play_give_pieces, play_give_pieces, play_whole_chunk}},
    {"SplitVsSplit", 0, 1, 1, 2, deal_two_chunks, {play_small, play_small}},
    {"SplitVsTake", 0, 1, 1, 1, deal_four_chunks, {play_small, play_chunks}},
    {"RetireVsTake", 0, 1, 1, 1, deal_chunk, {play_single, play_small}},
    {"BatchVsBatch", 0, 1, 1, 2, deal_two_chunks, {play_batches, play_batches}},
    {"LargeVsSmall", 0, 2, 2, 2, deal_nothing, {play_large, play_small}},
    {"TrimVsTake",
     0,
     1,
     1,
     1,
     deal_two_chunks,
     {play_first_grain_at_home, play_trim, play_small}},
    {"TrimVsRetire", 0, 1, 1, 1, deal_nothing, {play_at_home, play_trim}},
    {"LeaveHomeVsSteal",
     0,
     1,
     1,
     1,
     deal_nothing,
     {play_and_leave_home, play_small}},
    {"HomeVsHome", 0, 2, 2, 1, deal_nothing, {play_at_home, play_at_home}},
    {"SummaryRaiseVsLower",
     0,
     1,
     1,
     1,
     deal_singles,
     {play_give_most, play_search_runs}},
    {"EmptyVsRaise",
     0,
     1,
     1,
     1,
     deal_singles,
     {play_give_and_take_back, play_search_one}},
    {"LastResortVsGive",
     0,
     1,
     1,
     1,
     deal_pairs,
     {play_give_each, play_last_resort}},
    {"RunVsPage", 62, 4, 66, 5, deal_nothing, {play_runs, play_large}},
    {"RunVsRun", 0, 5, 5, 5, deal_nothing, {play_runs, play_runs}},
    {"WithdrawVsTake", 63, 3, 66, 5, deal_nothing, {play_withdraw, play_large}},
    {"WithdrawVsRun", 0, 4, 4, 5, deal_nothing, {play_withdraw, play_runs}},
    {"AddVsTake", 40, 1, 81, 25, deal_nothing, {play_add, play_large}},
};

#define RACE_COUNT (sizeof(races) / sizeof(races[0]))

size_t buddy_race_count(void)
{
    return RACE_COUNT;
}

const char *buddy_race_name(size_t index)
{
    return races[index].name;
}

/* Rounds. Threads wait for one another by yielding: they start together, and
 * the machine may have fewer cores than there are threads. */

struct match {
    const struct race *race;
    struct race_arena *arena;
    uint32_t rounds;
    unsigned players;
    _Atomic uint32_t arrived;
    bool is_over; /* written by the first player before a meeting */
};

struct seat {
    struct match *match;
    unsigned index;
};

static void meet(struct match *match, uint32_t meeting)
{
    atomic_fetch_add(&match->arrived, 1);
    for (unsigned spins = 0;
         atomic_load(&match->arrived) < meeting * match->players; spins++)
        if (spins > 200)
            (void)sched_yield();
}

/* A round: the first player deals, all play, the first player settles while the
 * others wait for the next round; and it alone decides that there is none. */
static void *sit(void *argument)
{
    const struct seat *seat = argument;
    struct match *match = seat->match;
    struct race_arena *arena = match->arena;
    for (uint32_t round = 0; round < match->rounds; round++) {
        if (seat->index == 0) {
            arena->round = round;
            match->race->deal(arena);
            match->is_over = atomic_load(&arena->failure) != NULL;
        }
        meet(match, 2 * round + 1);
        if (match->is_over)
            break;
        match->race->play[seat->index](&arena->players[seat->index]);
        meet(match, 2 * round + 2);
        if (seat->index == 0)
            race_settle(arena);
    }
    return NULL;
}

static void play_match(struct match *match)
{
    pthread_t threads[RACE_PLAYERS_MAX];
    struct seat seats[RACE_PLAYERS_MAX];
    for (unsigned i = 0; i < match->players; i++)
        seats[i] = (struct seat){match, i};
    for (unsigned i = 1; i < match->players; i++)
        (void)pthread_create(&threads[i], NULL, sit, &seats[i]);
    (void)sit(&seats[0]);
    for (unsigned i = 1; i < match->players; i++)
        (void)pthread_join(threads[i], NULL);
}

static const struct race *find_race(const char *name)
{
    for (size_t i = 0; i < RACE_COUNT; i++)
        if (strcmp(races[i].name, name) == 0)
            return &races[i];
    return NULL;
}

bool buddy_race_run(const char *name, uint32_t rounds, uint64_t seed,
                    char message[BUDDY_RACE_MESSAGE_BYTES])
{
    const struct race *race = find_race(name);
    static struct race_arena arena;
    if (!race || !race_arena_init(&arena, race->first_page, race->pages,
                                  race->capacity, seed)) {
        (void)snprintf(message, BUDDY_RACE_MESSAGE_BYTES,
                       "%s: no such race, or no memory", name);
        return false;
    }
    struct match match = {
        .race = race, .arena = &arena, .rounds = rounds / race->thinning};
    while (match.players < RACE_PLAYERS_MAX && race->play[match.players])
        match.players++;
    play_match(&match);
    const char *failure = atomic_load(&arena.failure);
    (void)snprintf(message, BUDDY_RACE_MESSAGE_BYTES, "%s, round %u: %s (%llu)",
                   name, arena.round, failure ? failure : "all is well",
                   (unsigned long long)atomic_load(&arena.failure_grain));
    race_arena_fini(&arena);
    return !failure;
}
