/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Growths that go on in a thread of their own: moiety_host_reserve_async().
 */
#ifndef MOIETY_NUMA_ARENA_GROWTH_H_
#define MOIETY_NUMA_ARENA_GROWTH_H_

#include "numa/arena/arena.h"

/* Cancels all growths of the arena, and frees those that the program has given up. Takes
 * its lock for an instant. */
void moietyi_growths_cancel(struct moiety_host *host);
/* The same, and waits until no thread of a growth uses the arena: for a piece. */
void moietyi_growths_end(struct moiety_host *host);

#endif
