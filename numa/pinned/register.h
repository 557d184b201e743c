/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver's part of pinned memory: making a region known to it, and taking
 * it away again.
 */
#ifndef MOIETY_NUMA_PINNED_REGISTER_H_
#define MOIETY_NUMA_PINNED_REGISTER_H_

#include "numa/pinned/region.h"
#include "pool/driver/context.h"

/* Registers a region that has its pages, and finds its device address.
 * MOIETY_OK; MOIETY_E_IN_USE: the driver still has a registration of an earlier
 * mapping at this address; or another error of the driver. `is_pinned` says
 * whether the driver has the region, also after a failure. */
MOIETY_MUST_USE moiety_status
moietyi_register(struct moietyi_context *own_context,
                 struct moietyi_region *region, bool is_read_only);

/* The same for memory that the driver allocates itself, at an address of its
 * own. The binding of the calling thread decides its nodes. */
MOIETY_MUST_USE moiety_status
moietyi_allocate_pinned(struct moietyi_context *own_context,
                        struct moietyi_region *region, bool is_combined);

/* Unregisters the region, if the driver has it, and unmaps it. MOIETY_OK also
 * if the context is gone, and its registrations with it. MOIETY_E_DEINITIALIZED
 * and MOIETY_E_FORKED: it stays in the process, which ends anyway. Otherwise
 * the driver's error: then nothing has changed. */
MOIETY_MUST_USE moiety_status moietyi_unregister(
    struct moietyi_context *own_context, struct moietyi_region *region);

#endif
