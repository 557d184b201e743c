/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Races, each named by the pair that races. Threads meet again and again on as
 * little memory as will do. A byte of each grain says whose it is, so that an
 * overlap is seen when it happens; a plain word of each grain is written by its
 * holder, so that a thread sanitizer sees a missing edge; and between rounds
 * the verifier looks, everything is given back, and must merge to whole pages.
 * In C, so that the tests and the mutants share it.
 */
#ifndef MOIETY_TESTS_BUDDY_RACES_RACE_H_
#define MOIETY_TESTS_BUDDY_RACES_RACE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BUDDY_RACE_MESSAGE_BYTES 256U

/* Of all; and of those of the buddy alone, which come first. */
size_t buddy_race_count(void);
size_t buddy_race_count_of_buddy(void);
const char *buddy_race_name(size_t index);

/* False: `message` says in which round what went wrong, or that there is no
 * such race. */
bool buddy_race_run(const char *name, uint32_t rounds, uint64_t seed,
                    char message[BUDDY_RACE_MESSAGE_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
