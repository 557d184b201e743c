/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the races of race.c are played on: one buddy, and players who take,
 * give and notice when two of them hold the same grain.
 */
#ifndef BINADE_TESTS_BUDDY_RACE_ARENA_H_
#define BINADE_TESTS_BUDDY_RACE_ARENA_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/buddy/race.h"
#include "tests/support/buddy_probe.h"

#define RACE_PLAYERS_MAX 3U
#define RACE_HAND_MAX 256U

struct race_arena;

struct race_interval {
    uint64_t start;
    uint64_t grains;
};

struct race_player {
    struct race_arena *arena;
    unsigned index;
    uint64_t random;
    struct buddy_probe_home home;
    struct race_interval hand[RACE_HAND_MAX];
    uint32_t hand_count;
};

struct race_arena {
    struct binadei_buddy *buddy;
    uint32_t page_capacity;
    uint32_t first_page; /* pages below it are never added */
    uint32_t added_pages;
    uint32_t round;
    /* Of each grain: whether somebody holds it, and what the holder wrote. */
    _Atomic uint8_t *is_held;
    uint32_t *payload;
    _Atomic uint64_t held_grains;
    struct race_player players[RACE_PLAYERS_MAX];
    /* Held back for the round, so that the rest is contended. */
    struct race_player dealer;
    _Atomic(const char *) failure; /* the first one; a constant */
    _Atomic uint64_t failure_grain;
};

/* With `pages` pages from `first_page` on, and room for `page_capacity`. */
bool race_arena_init(struct race_arena *arena, uint32_t first_page,
                     uint32_t pages, uint32_t page_capacity, uint64_t seed);
void race_arena_fini(struct race_arena *arena);
void race_fail(struct race_arena *arena, const char *what, uint64_t grain);

/* Below `bound`. */
uint32_t race_choose(struct race_player *player, uint32_t bound);

/* Marks grains as the player's, or no longer so, and complains of overlaps. */
void race_mark(struct race_player *player, uint64_t start, uint64_t grains);
void race_unmark(struct race_player *player, uint64_t start, uint64_t grains);

/* Up to `count` intervals into the hand, as far as there is room. */
bool race_take(struct race_player *player, struct buddy_probe_home *home,
               uint32_t grains, uint32_t count);
bool race_take_last_resort(struct race_player *player, uint32_t grains);
bool race_take_run(struct race_player *player, uint32_t chunks);

/* From the top of the hand: one whole, one in pieces of up to `piece` grains,
 * all whole. */
void race_give_one(struct race_player *player,
                   const struct buddy_probe_home *home);
void race_give_in_pieces(struct race_player *player, uint32_t piece);
void race_give_all(struct race_player *player,
                   const struct buddy_probe_home *home);

/* Cuts the top of the dealer's hand at a grain, and deals the two parts. */
void race_deal(struct race_arena *arena, unsigned player, uint64_t start,
               uint64_t grains);
/* The dealer takes a page and leaves its first chunks to the players. */
void race_narrow(struct race_arena *arena, uint32_t chunks);

/* At rest: the verifier and conservation; then everything back, and whole. */
void race_settle(struct race_arena *arena);

#endif
