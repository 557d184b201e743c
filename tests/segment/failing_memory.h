/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets the n-th calloc() or mmap() of a thread fail: link with
 * -Wl,--wrap=calloc,--wrap=mmap.
 */
#ifndef BINADE_TESTS_SEGMENT_FAILING_MEMORY_H_
#define BINADE_TESTS_SEGMENT_FAILING_MEMORY_H_

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The n-th call of this thread from now on fails, counted from 1; once. */
void failing_memory_arm(unsigned n);
/* Calls it off; true if no call has failed. */
bool failing_memory_disarm(void);

#ifdef __cplusplus
}
#endif

#endif
