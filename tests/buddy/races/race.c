/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The races of the buddy: how memory is dealt before a round, and what each of
 * its threads does.
 */
#include "tests/buddy/races/race_arena.h"
#include "tests/buddy/races/race_match.h"

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
                          struct buddy_probe_affinity *affinity,
                          uint32_t grains_min, uint32_t grains_max,
                          uint32_t count)
{
    for (unsigned i = 0; i < 16; i++) {
        uint32_t grains =
            grains_min + race_choose(player, grains_max - grains_min + 1);
        if (!race_take(player, affinity, grains, count) ||
            race_choose(player, 2))
            race_give_one(player, affinity);
    }
    race_give_all(player, affinity);
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

static void play_with_affinity(struct race_player *player)
{
    take_and_give(player, &player->affinity, 1, 70, 2);
}

static void play_first_grain_with_affinity(struct race_player *player)
{
    for (unsigned i = 0; i < 16; i++) {
        (void)race_take(player, &player->affinity, 1, 1);
        race_give_all(player, &player->affinity);
    }
}

static void play_and_drop_affinity(struct race_player *player)
{
    for (unsigned i = 0; i < 4; i++) {
        take_and_give(player, &player->affinity, 1, 70, 2);
        buddy_probe_drop_affinity(player->arena->buddy, &player->affinity);
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

static void play_last(struct race_player *player)
{
    for (unsigned i = 0; i < 4; i++) {
        (void)race_take_last(player, 1 + race_choose(player, 128));
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
        if (!buddy_probe_remove(arena->buddy, first, count))
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

const struct race buddy_races[] = {
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
     {play_first_grain_with_affinity, play_trim, play_small}},
    {"TrimVsRetire", 0, 1, 1, 1, deal_nothing, {play_with_affinity, play_trim}},
    {"LeaveHomeVsSteal",
     0,
     1,
     1,
     1,
     deal_nothing,
     {play_and_drop_affinity, play_small}},
    {"HomeVsHome",
     0,
     2,
     2,
     1,
     deal_nothing,
     {play_with_affinity, play_with_affinity}},
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
    {"LastVsGive", 0, 1, 1, 1, deal_pairs, {play_give_each, play_last}},
    {"RunVsPage", 62, 4, 66, 5, deal_nothing, {play_runs, play_large}},
    {"RunVsRun", 0, 5, 5, 5, deal_nothing, {play_runs, play_runs}},
    {"WithdrawVsTake", 63, 3, 66, 5, deal_nothing, {play_withdraw, play_large}},
    {"WithdrawVsRun", 62, 4, 66, 5, deal_nothing, {play_withdraw, play_runs}},
    {"AddVsTake", 40, 1, 81, 25, deal_nothing, {play_add, play_large}},
};

const size_t buddy_races_count = sizeof(buddy_races) / sizeof(buddy_races[0]);
