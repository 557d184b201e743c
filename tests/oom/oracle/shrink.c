/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Leaves out ever smaller pieces of a program, and makes the steps that stay
 * simpler, as long as its last step still fails falsely.
 */
#include "tests/oom/oracle/games.h"

#define MIB UINT64_C(1048576)
#define TRIALS_MOST 4000U

struct trials {
    struct games *games;
    struct program *best;
    unsigned count;
};

static bool is_spent(const struct trials *trials)
{
    return trials->count >= TRIALS_MOST;
}

/* Takes over the candidate, cut behind its false failure, or throws it away. */
static bool try(struct trials *trials, struct program *candidate)
{
    struct tally tally = {0};
    trials->count++;
    size_t found = turns_play(trials->games, candidate, &tally);
    if (found == candidate->count) {
        program_free(candidate);
        return false;
    }
    program_cut(candidate, found + 1, candidate->count - found - 1);
    program_free(trials->best);
    *trials->best = *candidate;
    return true;
}

/* Returns whether any piece of `length` steps could be left out. */
static bool leave_out(struct trials *trials, size_t length)
{
    bool is_smaller = false;
    size_t at = 0;
    while (at < trials->best->count && !is_spent(trials)) {
        size_t left = trials->best->count - at;
        struct program candidate = program_copy(trials->best);
        program_cut(&candidate, at, left < length ? left : length);
        if (try(trials, &candidate))
            is_smaller = true;
        else
            at += length;
    }
    return is_smaller;
}

static void simplify_step(struct trials *trials, size_t at, unsigned change)
{
    struct program candidate = program_copy(trials->best);
    struct step *step = &candidate.steps[at];
    if (change == 0)
        step->thread = 0;
    else if (change == 1)
        step->how = FREE_DONE;
    else if (change == 2)
        step->size_bytes = (step->size_bytes + MIB - 1) & ~(MIB - 1);
    else if (step->stream != HISTORY_NO_STREAM)
        step->stream = 0;
    (void)try(trials, &candidate);
}

static void simplify(struct trials *trials)
{
    for (unsigned change = 0; change < 4; change++)
        for (size_t i = 0; i < trials->best->count && !is_spent(trials); i++)
            simplify_step(trials, i, change);
}

void shrink(struct games *games, struct program *program)
{
    struct trials trials = {.games = games, .best = program};
    size_t length = program->count / 2 + 1;
    while (length > 1) {
        (void)leave_out(&trials, length);
        length = (length + 1) / 2;
    }
    while (leave_out(&trials, 1) && !is_spent(&trials))
        continue;
    simplify(&trials);
    (void)leave_out(&trials, 1);
}
