/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Meetings of two threads on a stream's maps, each played out in one order: one
 * thread stops at a step of an operation, another one does something, and the
 * first goes on. In C, so that the tests and the mutants share it.
 */
#ifndef MOIETY_TESTS_BUDDY_MAPS_MAP_STEPS_H_
#define MOIETY_TESTS_BUDDY_MAPS_MAP_STEPS_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t map_steps_count(void);
const char *map_steps_name(size_t index);

/* NULL, or what is wrong; constant text. */
const char *map_steps_run(size_t index);

#ifdef __cplusplus
}
#endif

#endif
