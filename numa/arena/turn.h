/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The turn of a process among the user's others that pin memory, a piece each: a
 * lock of a file. It is a courtesy, so a thread goes on without it where the file
 * cannot be used, or whoever has it stands still.
 */
#ifndef MOIETY_NUMA_ARENA_TURN_H_
#define MOIETY_NUMA_ARENA_TURN_H_

#include <stdbool.h>
#include <stdint.h>

#include "numa/pinned/progress.h"

struct moietyi_turn {
    int file; /* -1: none */
    uint64_t patience_ns;
    bool is_held;
    bool is_impatient; /* the last wait was in vain: the next does not wait */
};

/* The file is in $MOIETY_LOCK_DIR, or /run/user/UID, or /tmp. One that is not a
 * regular file of this user alone is not used; nor is any if the thread `is_inner`,
 * in a callback of a call that has the turn. */
void moietyi_turn_open(struct moietyi_turn *turn, uint64_t patience_ns,
                       bool is_inner);
void moietyi_turn_close(struct moietyi_turn *turn);

/* Waits for the turn: as long as others take theirs, up to 16 times the patience,
 * and for one that has it and does not pass it on, the patience. Ticks. */
void moietyi_turn_take(struct moietyi_turn *turn,
                       struct moietyi_progress *progress);
void moietyi_turn_end(struct moietyi_turn *turn);

#endif
