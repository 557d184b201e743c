/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * First touch, by which pages come to be where they were bound to; and the
 * question to the kernel where they are.
 */
#ifndef MOIETY_NUMA_PINNED_PREFAULT_H_
#define MOIETY_NUMA_PINNED_PREFAULT_H_

#include "numa/pinned/region.h"

/* Gives every page of the region memory. MOIETY_OK, or
 * MOIETY_E_NO_PINNED_MEMORY when the kernel has none: some pages may be there
 * then. */
MOIETY_MUST_USE moiety_status moietyi_prefault(
    struct moietyi_region *region, const struct moietyi_place *place,
    uint32_t thread_max, const struct moietyi_progress *progress);

/* Asks the kernel for each page and counts it in `pages_near` or
 * `pages_elsewhere`. If it does not report a page, that is in neither, and the
 * region gets the bit MOIETY_HOST_FELL_TO_UNVERIFIED. */
void moietyi_read_back(struct moietyi_region *region,
                       const struct moietyi_place *place);

#endif
