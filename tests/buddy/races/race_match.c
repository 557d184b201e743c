/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Plays a race, round by round.
 */
#include "tests/buddy/races/race_match.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "tests/buddy/races/race.h"

static const struct race *race_at(size_t index)
{
    return index < buddy_races_count ? &buddy_races[index]
                                     : &map_races[index - buddy_races_count];
}

size_t buddy_race_count(void)
{
    return buddy_races_count + map_races_count;
}

size_t buddy_race_count_of_buddy(void)
{
    return buddy_races_count;
}

const char *buddy_race_name(size_t index)
{
    return race_at(index)->name;
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
    for (size_t i = 0; i < buddy_race_count(); i++)
        if (strcmp(race_at(i)->name, name) == 0)
            return race_at(i);
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
