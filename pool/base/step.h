/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Names for the moments between two steps of a lock-free operation. A test is
 * built with BINADEI_STEPS=1 and has a thread stop at such a moment for good:
 * the others must get on without it. Where a documented lock is held, the name
 * begins with "locked.". In every other build the macro is nothing.
 */
#ifndef BINADE_POOL_BASE_STEP_H_
#define BINADE_POOL_BASE_STEP_H_

#ifndef BINADEI_STEPS
#define BINADEI_STEPS 0
#endif

#if BINADEI_STEPS
/* The test's: returns at once, or when the test lets this thread go on.
 * `name` is a string literal. */
void binadei_step(const char *name);
#define BINADEI_STEP(name) binadei_step(name)
#else
#define BINADEI_STEP(name) ((void)0)
#endif

#endif
