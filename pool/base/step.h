/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Names for the moments between two steps of a lock-free operation. A test is
 * built with MOIETYI_STEPS=1 and has a thread stop at such a moment for good:
 * the others must get on without it. Where a documented lock is held, the name
 * begins with "locked.". In every other build the macro is nothing.
 */
#ifndef MOIETY_POOL_BASE_STEP_H_
#define MOIETY_POOL_BASE_STEP_H_

#ifndef MOIETYI_STEPS
#define MOIETYI_STEPS 0
#endif

#if MOIETYI_STEPS
/* The test's function: returns at once, or when the test continues this thread.
 * `name` is a string literal. */
void moietyi_step(const char *name);
#define MOIETYI_STEP(name) moietyi_step(name)
#else
#define MOIETYI_STEP(name) ((void)0)
#endif

#endif
