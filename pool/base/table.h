/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tables over all of a pool's offset space: address space whose memory the kernel
 * gives where it is touched, all zero. A large pool's are touched a line here and
 * a line there, so that looking up where the lines are costs more than they do:
 * tables of at least BINADEI_TABLE_HUGE_BYTES have huge pages where the system
 * gives them to who asks.
 */
#ifndef BINADE_POOL_BASE_TABLE_H_
#define BINADE_POOL_BASE_TABLE_H_

#include <stddef.h>

/* Of a pool with a limit of 1.7 GiB, as for its buddy. */
#define BINADEI_TABLE_HUGE_BYTES ((size_t)256 << 20)

/* NULL: there is no address space. */
void *binadei_table_reserve(size_t bytes);
/* With the same number of bytes. */
void binadei_table_release(void *table, size_t bytes);

#endif
