/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Places where one mistake would break what the heaps promise. A test is built
 * with MOIETYI_HEAP_WEAKENINGS=1 and has one of them made, by its name: other
 * tests must notice. In every other build the macro is false.
 */
#ifndef MOIETY_POOL_HEAP_WEAKEN_H_
#define MOIETY_POOL_HEAP_WEAKEN_H_

#include <stdbool.h>

#ifndef MOIETYI_HEAP_WEAKENINGS
#define MOIETYI_HEAP_WEAKENINGS 0
#endif

#if MOIETYI_HEAP_WEAKENINGS
/* The test's. */
bool moietyi_heap_is_weak(const char *name);
#define MOIETYI_HEAP_WEAK(name) moietyi_heap_is_weak(#name)
#else
#define MOIETYI_HEAP_WEAK(name) false
#endif

#endif
