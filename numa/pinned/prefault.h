/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * First touch, by which pages come to be where they were bound to; and the
 * question to the kernel where they are.
 */
#ifndef BINADE_NUMA_PINNED_PREFAULT_H_
#define BINADE_NUMA_PINNED_PREFAULT_H_

#include "numa/pinned/region.h"

/* Gives every page of the region memory. BINADE_OK, or
 * BINADE_E_NO_PINNED_MEMORY when the kernel has none: some pages may be there
 * then. */
BINADE_MUST_USE binade_status binadei_prefault(
    struct binadei_region *region, const struct binadei_place *place,
    uint32_t thread_max, const struct binadei_progress *progress);

/* Asks the kernel for each page and counts in `pages_near` and
 * `pages_elsewhere`. What it does not tell is in neither, and then the region
 * has the bit BINADE_HOST_FELL_TO_UNVERIFIED. */
void binadei_read_back(struct binadei_region *region,
                       const struct binadei_place *place);

#endif
