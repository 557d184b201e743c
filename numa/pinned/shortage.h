/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The last time that the kernel or the driver had no memory to pin for a miss. To ask
 * them is slow, and others wait for the driver meanwhile: misses do not ask for as
 * much again for a second. A refusal after that doubles it, up to a minute. The caller
 * has a lock for each of these.
 */
#ifndef MOIETY_NUMA_PINNED_SHORTAGE_H_
#define MOIETY_NUMA_PINNED_SHORTAGE_H_

#include <stdbool.h>
#include <stdint.h>

#include "numa/pinned/region.h"

/* Zeroes: nothing was refused. */
struct moietyi_shortage {
    uint64_t bytes; /* the least refused since the last pause; 0: none */
    uint64_t pause_ns;
    uint64_t until_ns;
    char reason[MOIETYI_REASON_BYTES];
};

/* `reason` is the calling thread's last message. */
void moietyi_shortage_note(struct moietyi_shortage *shortage, uint64_t bytes);
/* So much was given, or UINT64_MAX: some was given back. */
void moietyi_shortage_forget(struct moietyi_shortage *shortage, uint64_t bytes);
bool moietyi_shortage_covers(const struct moietyi_shortage *shortage,
                             uint64_t bytes);

#endif
