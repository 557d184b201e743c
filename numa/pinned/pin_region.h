/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The stages that make a region, in their order, and what is tried when one
 * fails. Near is worth more than huge, and pinned more than near; a strict place
 * takes nothing less than it asked for.
 */
#ifndef MOIETY_NUMA_PINNED_PIN_REGION_H_
#define MOIETY_NUMA_PINNED_PIN_REGION_H_

#include "numa/pinned/progress.h"
#include "numa/pinned/region.h"
#include "pool/driver/context.h"

struct moietyi_runway;

struct moietyi_pin_request {
    struct moietyi_context *own_context;
    const struct moietyi_place *place;
    uint32_t flags; /* MOIETY_HOST_ bits */
    uint32_t thread_max;
    struct moietyi_progress *progress;
    struct moietyi_runway *runway; /* of this call, or NULL */
};

/* Maps and touches, or takes from the runway that has so much left, then pins and
 * reads back a region that has only its size and the pages to try first. A runway
 * that is of no use any more is closed. MOIETY_OK: all of it worked. Otherwise
 * moietyi_unregister() takes the region away again. Either way it has its
 * fallbacks. MOIETY_E_NO_PINNED_MEMORY, MOIETY_E_NO_HOST_MEMORY,
 * MOIETY_E_UNSUPPORTED, MOIETY_E_INTERRUPTED, or the driver's error. No lock held; blocks in the
 * kernel and the driver. */
MOIETY_MUST_USE moiety_status moietyi_make_region(
    const struct moietyi_pin_request *request, struct moietyi_region *region);

#endif
