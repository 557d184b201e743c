/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the C library that can be told from an arena's by its address
 * alone: blocks of an arena start at multiples of 512 bytes, plain ones never
 * do. So a free needs no table, no lock and no look at memory that an arena
 * which was destroyed has taken with it.
 */
#ifndef MOIETY_EMM_NEP49_PLAIN_H_
#define MOIETY_EMM_NEP49_PLAIN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOIETYI_ARENA_ALIGNMENT_BYTES 512U

static inline bool moietyi_is_plain(const void *address)
{
    return (uintptr_t)address % MOIETYI_ARENA_ALIGNMENT_BYTES != 0;
}

/* Any size. Aligned to 16 bytes; NULL when there is none. */
void *moietyi_plain_alloc(size_t size_bytes);
/* The same, zeroed. */
void *moietyi_plain_alloc_zeroed(size_t size_bytes);
/* Bytes that were asked for. */
size_t moietyi_plain_size(const void *address);
void moietyi_plain_free(void *address);

#endif
