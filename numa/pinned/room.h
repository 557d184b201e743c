/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How much memory there is for more, before anything is touched: who touches
 * pages that a bound node or a control group has not got is killed, not told.
 * It is the best that can be known; another process may be faster.
 */
#ifndef BINADE_NUMA_PINNED_ROOM_H_
#define BINADE_NUMA_PINNED_ROOM_H_

#include "numa/pinned/region.h"

/* BINADE_OK, or BINADE_E_NO_PINNED_MEMORY with who is in the way: the nodes, if
 * `is_exact`, or the control group. What the system does not tell is no
 * obstacle. */
BINADE_MUST_USE binade_status binadei_room_check(
    const struct binadei_place *place, size_t size_bytes, bool is_exact);

#endif
