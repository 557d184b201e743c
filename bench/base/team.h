/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads that run one function, and meet in it or take turns.
 */
#ifndef MOIETY_BENCH_BASE_TEAM_H_
#define MOIETY_BENCH_BASE_TEAM_H_

#include <stddef.h>
#include <stdint.h>

/* Runs `work` on each of `count` items of an array, each on a thread of its
 * own, and waits for all of them. Ends the process where a thread cannot be
 * started, since the others would wait for it for ever. */
void team_run(void *(*work)(void *item), void *items, size_t item_bytes,
              uint32_t count);

/* Called by one thread at a time: the turn of the thread with this number, which
 * says whose turn is next, or TEAM_OVER. */
#define TEAM_OVER UINT32_MAX
typedef uint32_t team_turn(void *context, uint32_t thread);

/* `count` threads take turns, beginning with `first`, until it is over. Ends the
 * process as above. */
void team_take_turns(team_turn *turn, void *context, uint32_t first,
                     uint32_t count);

#endif
