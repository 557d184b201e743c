/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pools that reserve addresses and no memory, to count what they reserve.
 */
#ifndef MOIETY_BENCH_HOST_WASTE_WASTE_H_
#define MOIETY_BENCH_HOST_WASTE_WASTE_H_

#include <moiety/pool.h>

/* As an arena makes its pool, with pieces from the first to the longest. */
moiety_status waste_open(uint64_t first_bytes, uint64_t most_bytes,
                         moiety_pool **out);
void host_pieces(void);

#endif
