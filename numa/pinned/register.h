/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver's part of pinned memory: making a region known to it, and taking
 * it away again.
 */
#ifndef BINADE_NUMA_PINNED_REGISTER_H_
#define BINADE_NUMA_PINNED_REGISTER_H_

#include "numa/pinned/region.h"
#include "pool/driver/context.h"

/* Registers a region that has its pages, and finds its device address.
 * BINADE_OK; BINADE_E_BUSY: the driver still has a registration of what was at
 * this address before; or what it said otherwise. Whether the driver has the
 * region says `is_pinned`, also after a failure. */
BINADE_MUST_USE binade_status
binadei_register(struct binadei_context *own_context,
                 struct binadei_region *region, bool is_read_only);

/* The same for write-combined memory, which the driver allocates itself, at an
 * address of its own. What the calling thread is bound to decides where. */
BINADE_MUST_USE binade_status binadei_register_combined(
    struct binadei_context *own_context, struct binadei_region *region);

/* Takes the region from the driver, if it has it, and from the process.
 * BINADE_OK also where the context is gone, and its registrations with it.
 * BINADE_E_DEINITIALIZED and BINADE_E_FORKED: it stays in the process, which
 * ends anyway. Otherwise what the driver said: then all is as it was. */
BINADE_MUST_USE binade_status binadei_unregister(
    struct binadei_context *own_context, struct binadei_region *region);

#endif
