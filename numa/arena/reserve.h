/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reserves of an arena, for those that call one and for growths in a thread.
 */
#ifndef MOIETY_NUMA_ARENA_RESERVE_H_
#define MOIETY_NUMA_ARENA_RESERVE_H_

#include "numa/arena/arena.h"
#include "numa/pinned/progress.h"

/* Enters the arena for a reserve, or says why there cannot be one. */
MOIETY_MUST_USE moiety_status moietyi_reserve_enter(struct moiety_host *host,
                                                    uint64_t size_bytes,
                                                    uint32_t thread_count,
                                                    const char *function);
/* Of a thread that has entered, or for which another one has. The progress was begun,
 * and says at the end what is pinned. Does not leave. */
MOIETY_MUST_USE moiety_status
moietyi_reserve_run(struct moiety_host *host, uint64_t size_bytes,
                    struct moietyi_progress *progress);

#endif
