/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * mutant_driver REPEATS [maps|races]
 *
 * The models and every race, again and again, the meetings of map_steps.c and the
 * cases of good_fits.c; or what is about streams' maps alone; or what has
 * several threads, the meetings and the races; exits with 1, and says why, at the
 * first thing that is wrong. mutants.sh links it with sources that it changed,
 * whose every atomic operation calls perturb() first: threads then meet in the
 * middle of operations even on a machine with few cores.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/buddy/good_fits.h"
#include "tests/buddy/maps/map_model.h"
#include "tests/buddy/maps/map_steps.h"
#include "tests/buddy/model.h"
#include "tests/buddy/races/race.h"

#define SEEDS 40U
#define STEPS 120U
#define ROUNDS 150U

void perturb(void);

void perturb(void)
{
    static _Thread_local uint32_t random = 1;
    random = random * 1664525U + 1013904223U;
    if (random >> 25 == 0)
        (void)sched_yield();
}

static void end_if(int has_failed, const char *message)
{
    if (!has_failed)
        return;
    puts(message);
    exit(1);
}

static void play_model(uint64_t first_seed)
{
    char message[BUDDY_MODEL_MESSAGE_BYTES];
    for (uint64_t seed = first_seed; seed < first_seed + SEEDS; seed++) {
        const struct buddy_model_input input = {.seed = seed, .steps = STEPS};
        end_if(!buddy_model_run(&input, message), message);
    }
}

static void play_map_model(uint64_t first_seed)
{
    char message[MAP_MODEL_MESSAGE_BYTES];
    for (uint64_t seed = first_seed; seed < first_seed + SEEDS; seed++)
        end_if(!map_model_run(seed, STEPS, message), message);
}

static void play_meetings(void)
{
    char message[256];
    for (size_t i = 0; i < map_steps_count(); i++) {
        const char *failure = map_steps_run(i);
        (void)snprintf(message, sizeof(message), "step of %s: %s",
                       map_steps_name(i), failure ? failure : "");
        end_if(failure != NULL, message);
    }
}

static void play_good_fits(void)
{
    char message[256];
    for (size_t i = 0; i < good_fits_count(); i++) {
        const char *failure = good_fits_run(i);
        (void)snprintf(message, sizeof(message), "good fit of %s: %s",
                       good_fits_name(i), failure ? failure : "");
        end_if(failure != NULL, message);
    }
}

static void play_races(bool is_of_maps, uint64_t seed)
{
    char message[BUDDY_RACE_MESSAGE_BYTES];
    size_t first = is_of_maps ? buddy_race_count_of_buddy() : 0;
    for (size_t race = first; race < buddy_race_count(); race++)
        end_if(!buddy_race_run(buddy_race_name(race), ROUNDS, seed, message),
               message);
}

int main(int argc, char **argv)
{
    long repeats = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    bool is_of_maps = argc > 2 && strcmp(argv[2], "maps") == 0;
    bool is_of_races = argc > 2 && strcmp(argv[2], "races") == 0;
    for (uint64_t i = 0; i < (uint64_t)repeats; i++) {
        if (!is_of_maps && !is_of_races)
            play_model(i * SEEDS);
        play_meetings();
        if (!is_of_races) {
            play_good_fits();
            play_map_model(i * SEEDS);
        }
        play_races(is_of_maps, i);
    }
    puts("nothing is wrong");
    return 0;
}
