/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Races: four threads on two pages, with three streams' heaps and DONE's. A plain
 * byte of each grain says whose it is, so that a grain that two threads hold is
 * seen, and a thread sanitizer sees a missing edge. Between rounds the verifier
 * looks, all heaps are read, and everything is given back and must be one extent
 * again. In C, so that the tests and the mutants share it.
 */
#ifndef MOIETY_TESTS_HEAPS_RACE_H_
#define MOIETY_TESTS_HEAPS_RACE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEAP_RACE_MESSAGE_BYTES 256U

size_t heap_race_count(void);
const char *heap_race_name(size_t index);

/* False: `message` says in which round what went wrong. */
bool heap_race_run(size_t index, uint32_t rounds, uint64_t seed,
                   char message[HEAP_RACE_MESSAGE_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
