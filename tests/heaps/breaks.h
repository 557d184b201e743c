/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The verifier must be able to fail: each case breaks the tables of a small space
 * by hand, and has what the verifier must say of them, and where. In C, which may
 * look into the tables.
 */
#ifndef MOIETY_TESTS_HEAPS_BREAKS_H_
#define MOIETY_TESTS_HEAPS_BREAKS_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t heap_breaks_count(void);
const char *heap_breaks_name(size_t index);
/* NULL: the verifier was content before, and said what it must afterwards. */
const char *heap_breaks_run(size_t index);

/* Of a space in two groups, with more owners and extents than a part of records is
 * for: it is whole at both ends of that. NULL, or what is not so. */
const char *heap_parts_run(void);

/* Creations without memory for a heap or its hand, more than there are owners: the
 * next one has its number. As above. */
const char *heap_failures_run(void);

/* Which spaces are refused, and a large one, of which little memory is used. As
 * above. */
const char *heap_bounds_run(void);

#ifdef __cplusplus
}
#endif

#endif
