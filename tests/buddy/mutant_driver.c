/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * mutant_driver REPEATS
 *
 * The model and every race, again and again; exits with 1, and says why, at the
 * first thing that is wrong. mutants.sh links it with sources that it changed,
 * whose every atomic operation calls perturb() first: threads then meet in the
 * middle of operations even on a machine with few cores.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/buddy/model.h"
#include "tests/buddy/race.h"

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

int main(int argc, char **argv)
{
    long repeats = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    for (uint64_t i = 0; i < (uint64_t)repeats; i++) {
        char message[BUDDY_MODEL_MESSAGE_BYTES];
        for (uint64_t seed = i * SEEDS; seed < (i + 1) * SEEDS; seed++) {
            const struct buddy_model_input input = {.seed = seed,
                                                    .steps = STEPS};
            end_if(!buddy_model_run(&input, message), message);
        }
        char told[BUDDY_RACE_MESSAGE_BYTES];
        for (size_t race = 0; race < buddy_race_count(); race++)
            end_if(!buddy_race_run(buddy_race_name(race), ROUNDS, i, told),
                   told);
    }
    puts("nothing is wrong");
    return 0;
}
