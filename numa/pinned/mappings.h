/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Whose memory a range is, as the kernel says. Changes nothing: advice that is
 * given and taken back would be seen by a fork of another thread.
 */
#ifndef MOIETY_NUMA_PINNED_MAPPINGS_H_
#define MOIETY_NUMA_PINNED_MAPPINGS_H_

#include <stdbool.h>
#include <stdint.h>

/* Whether all of the range is mapped privately (MAP_PRIVATE), so that a fork copies
 * it. False also where /proc cannot be read. Allocates. */
bool moietyi_is_private_memory(uintptr_t first, uintptr_t end);

#endif
