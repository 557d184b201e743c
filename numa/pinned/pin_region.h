/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The stages that make a region, in their order, and what is tried when one
 * fails. Near is worth more than huge, and pinned more than near; a strict place
 * takes nothing less than it asked for.
 */
#ifndef BINADE_NUMA_PINNED_PIN_REGION_H_
#define BINADE_NUMA_PINNED_PIN_REGION_H_

#include "numa/pinned/region.h"
#include "pool/driver/context.h"

struct binadei_pin_request {
    struct binadei_context *own_context;
    const struct binadei_place *place;
    uint32_t flags; /* BINADE_HOST_ bits */
    uint32_t thread_max;
    const struct binadei_progress *progress; /* may be NULL */
};

/* Of a region that has only its size and the pages to try first. BINADE_OK:
 * pinned, and read back. Otherwise the region is what binadei_unregister() takes
 * away again. Either way it has its fallbacks.
 * BINADE_E_NO_PINNED_MEMORY, BINADE_E_NO_HOST_MEMORY, BINADE_E_UNSUPPORTED, or
 * what the driver said. No lock held; blocks in the kernel and the driver. */
BINADE_MUST_USE binade_status binadei_make_region(
    const struct binadei_pin_request *request, struct binadei_region *region);

#endif
