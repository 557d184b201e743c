/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of games that look for false failures.
 */
#ifndef MOIETY_TESTS_OOM_ORACLE_GAMES_H_
#define MOIETY_TESTS_OOM_ORACLE_GAMES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/oom/oracle/device.h"
#include "tests/oom/oracle/play.h"
#include "tests/oom/oracle/program.h"

struct games {
    struct device device;
    struct tally tally;
    struct chances chances;
    bool is_checked; /* by what the pool can do once nothing is pending */
    uint64_t seed;
    uint64_t failures; /* wanted */
    uint64_t steps;    /* of a game */
    uint64_t pools;    /* of one block at a time */
    uint64_t shown;    /* false failures still to be printed */
};

/* turns.c: random programs whose threads take turns. A program that fails
 * falsely does so again: it is shrunk and printed. */
void games_in_turns(struct games *games);
/* Plays one program. Returns the index of its first false failure, or its count
 * if there is none. */
size_t turns_play(struct games *games, const struct program *program,
                  struct tally *tally);

/* shrink.c: cuts a program that fails falsely down to what it takes. */
void shrink(struct games *games, struct program *program);

/* threads.c: threads that play at the same time. */
void games_of_threads(struct games *games);

/* one.c: one stream, and one block alive at a time, of a good part of the
 * device, in pools on the device's own memory. */
void games_of_one(struct games *games);

#endif
