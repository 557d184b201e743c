/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets the n-th call of a thread fail that asks for memory: malloc(), calloc(),
 * realloc(), aligned_alloc(), mmap(). Only calls in what is linked statically
 * are seen: the linker redirects them.
 */
#ifndef MOIETY_TESTS_SUPPORT_TOOLS_FAILING_MEMORY_H_
#define MOIETY_TESTS_SUPPORT_TOOLS_FAILING_MEMORY_H_

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
