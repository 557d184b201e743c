/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a race is: how memory is dealt before a round, and what each of its
 * threads does. race.c has those of the buddy, map_race.c those of streams'
 * maps; race_match.c plays them.
 */
#ifndef MOIETY_TESTS_BUDDY_RACES_RACE_MATCH_H_
#define MOIETY_TESTS_BUDDY_RACES_RACE_MATCH_H_

#include <stddef.h>
#include <stdint.h>

#include "tests/buddy/races/race_arena.h"

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

extern const struct race buddy_races[];
extern const size_t buddy_races_count;
extern const struct race map_races[];
extern const size_t map_races_count;

#endif
