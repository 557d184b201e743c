/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The races of streams' maps: how memory is dealt before a round, and what each
 * of its threads does. What a view takes is given back on its stream, or as
 * done.
 */
#include "tests/buddy/races/race_arena.h"
#include "tests/buddy/races/race_match.h"

#define FIRST 0U
#define SECOND 1U

static void deal_nothing(struct race_arena *arena)
{
    (void)arena;
}

static void deal_chunk(struct race_arena *arena)
{
    race_narrow(arena, 1);
}

static void deal_three_chunks(struct race_arena *arena)
{
    race_narrow(arena, 3);
}

static void deal_ordered(struct race_arena *arena)
{
    arena->are_ordered = true;
    race_narrow(arena, 3);
}

/* Three chunks and parts of two more, all of them in the first stream's maps. */
static void deal_freed(struct race_arena *arena)
{
    struct race_player *player = &arena->players[0];
    race_narrow(arena, 5);
    if (race_take_view(player, RACE_DONE, false, 5 * PROBE_CHUNK_GRAINS - 30))
        race_free(player, FIRST, PROBE_PAGE_GRAINS);
}

static void give(struct race_player *player, unsigned stream)
{
    if (stream == RACE_DONE || race_choose(player, 6) == 0)
        race_give_one(player, NULL);
    else
        race_free(player, stream, 1 + race_choose(player, 200));
}

static void take_and_give(struct race_player *player, unsigned stream,
                          uint32_t grains_max)
{
    for (unsigned i = 0; i < 16; i++) {
        uint32_t grains = 1 + race_choose(player, grains_max);
        bool is_own_only = stream != RACE_DONE && race_choose(player, 4) == 0;
        if (!race_take_view(player, stream, is_own_only, grains) ||
            race_choose(player, 2))
            give(player, stream);
    }
}

static void play_first(struct race_player *player)
{
    take_and_give(player, FIRST, 40);
}

static void play_second(struct race_player *player)
{
    take_and_give(player, SECOND, 40);
}

static void play_done(struct race_player *player)
{
    take_and_give(player, RACE_DONE, 40);
}

static void play_first_large(struct race_player *player)
{
    take_and_give(player, FIRST, 3 * PROBE_CHUNK_GRAINS);
}

static void play_first_pages(struct race_player *player)
{
    take_and_give(player, FIRST, 2 * PROBE_PAGE_GRAINS);
}

static void play_second_pages(struct race_player *player)
{
    take_and_give(player, SECOND, 2 * PROBE_PAGE_GRAINS);
}

static void play_words(struct race_player *player)
{
    for (unsigned i = 0; i < 16; i++) {
        uint32_t grains = 1 + race_choose(player, 9);
        if (!race_take_words(player, FIRST, grains,
                             1 + race_choose(player, 6)) &&
            race_take_view(player, FIRST, false, 40))
            race_free(player, FIRST, 7);
        if (race_choose(player, 2))
            give(player, FIRST);
    }
}

/* Exactly these grains, of the chunks that were dealt. */
static void play_claims(struct race_player *player)
{
    uint32_t room = 5 * PROBE_CHUNK_GRAINS;
    uint64_t base = (uint64_t)player->arena->first_page * PROBE_PAGE_GRAINS;
    for (unsigned i = 0; i < 16; i++) {
        uint32_t start = race_choose(player, room);
        uint32_t grains = 1 + race_choose(player, room - start);
        if (!race_claim(player, FIRST, base + start, grains) ||
            race_choose(player, 2))
            give(player, FIRST);
    }
}

/* The word is emptied and filled again, and its hints with it. */
static void play_one_grain(struct race_player *player)
{
    for (unsigned i = 0; i < 24; i++) {
        if (race_take_words(player, FIRST, 1, 1) ||
            race_take_view(player, FIRST, false, 1))
            race_free(player, FIRST, 1);
    }
}

static void play_moves(struct race_player *player)
{
    for (unsigned i = 0; i < 12; i++)
        race_move(player->arena, FIRST);
}

static void play_moves_of_both(struct race_player *player)
{
    for (unsigned i = 0; i < 12; i++)
        race_move(player->arena, i % 2 ? SECOND : FIRST);
}

static void play_hands(struct race_player *player)
{
    for (unsigned i = 0; i < 12; i++) {
        race_move(player->arena, FIRST);
        race_hand(player->arena, race_choose(player, 2) ? SECOND : FIRST);
    }
}

const struct race map_races[] = {
    {"AllocVsFreeOfTwoStreams",
     0,
     1,
     1,
     1,
     deal_chunk,
     {play_first, play_second}},
    {"TakeVsClose", 0, 1, 1, 1, deal_three_chunks, {play_first, play_moves}},
    {"TakeVsDrain",
     0,
     1,
     1,
     1,
     deal_three_chunks,
     {play_first, play_moves, play_done}},
    {"StreamsVsMoves",
     0,
     1,
     1,
     1,
     deal_three_chunks,
     {play_first, play_second, play_moves_of_both}},
    {"TwoTakersOfOneStream",
     0,
     1,
     1,
     1,
     deal_freed,
     {play_first_large, play_first_large, play_moves}},
    {"UnionClaimVsGive",
     0,
     1,
     1,
     1,
     deal_freed,
     {play_claims, play_first_large, play_moves}},
    {"ClaimVsClaim",
     0,
     1,
     1,
     1,
     deal_freed,
     {play_claims, play_claims, play_moves}},
    {"ClaimVsClaimOfAnother",
     0,
     1,
     1,
     1,
     deal_freed,
     {play_claims, play_second, play_moves}},
    {"WordsVsMoves",
     0,
     1,
     1,
     1,
     deal_freed,
     {play_words, play_words, play_moves}},
    {"MapHintVsLower",
     0,
     1,
     1,
     1,
     deal_chunk,
     {play_one_grain, play_one_grain}},
    {"MoverVsMover",
     0,
     1,
     1,
     1,
     deal_three_chunks,
     {play_first, play_moves, play_moves}},
    {"HandVsTake",
     0,
     1,
     1,
     1,
     deal_ordered,
     {play_first, play_second, play_hands}},
    {"PagesOfTwoStreams",
     62,
     4,
     66,
     5,
     deal_nothing,
     {play_first_pages, play_second_pages, play_moves_of_both}},
};

const size_t map_races_count = sizeof(map_races) / sizeof(map_races[0]);
