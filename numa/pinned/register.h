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
 * MOIETY_OK; MOIETY_E_BUSY: the driver still has a registration of what was at
 * this address before; or what it said otherwise. Whether the driver has the
 * region says `is_pinned`, also after a failure. */
MOIETY_MUST_USE moiety_status
moietyi_register(struct moietyi_context *own_context,
                 struct moietyi_region *region, bool is_read_only);

/* The same for memory that the driver allocates itself, at an address of its own.
 * What the calling thread is bound to decides where. */
MOIETY_MUST_USE moiety_status
moietyi_allocate_pinned(struct moietyi_context *own_context,
                        struct moietyi_region *region, bool is_combined);

/* Takes the region from the driver, if it has it, and from the process.
 * MOIETY_OK also where the context is gone, and its registrations with it.
 * MOIETY_E_DEINITIALIZED and MOIETY_E_FORKED: it stays in the process, which
 * ends anyway. Otherwise what the driver said: then all is as it was. */
MOIETY_MUST_USE moiety_status moietyi_unregister(
    struct moietyi_context *own_context, struct moietyi_region *region);

#endif
