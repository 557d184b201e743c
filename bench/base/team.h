/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads that run one function, and meet in it.
 */
#ifndef BINADE_BENCH_BASE_TEAM_H_
#define BINADE_BENCH_BASE_TEAM_H_

#include <stddef.h>
#include <stdint.h>

/* Runs `work` on each of `count` items of an array, each on a thread of its
 * own, and waits for all of them. Ends the process where a thread cannot be
 * started, since the others would wait for it for ever. */
void team_run(void *(*work)(void *item), void *items, size_t item_bytes,
              uint32_t count);

#endif
