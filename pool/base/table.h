/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tables over all of a pool's offset space: address space whose memory the kernel
 * gives where it is touched, all zero.
 */
#ifndef MOIETY_POOL_BASE_TABLE_H_
#define MOIETY_POOL_BASE_TABLE_H_

#include <stddef.h>

/* NULL: there is no address space. */
void *moietyi_table_reserve(size_t bytes);
/* With the same number of bytes, here and below. */
void moietyi_table_release(void *table, size_t bytes);

/* Asks for huge pages, before anything is touched. A table is read a line here
 * and a line there, so that looking up where the lines are can cost more than they
 * do. */
void moietyi_table_prefer_huge(void *table, size_t bytes);

#endif
