/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A host arena: a pool over a source of pinned memory.
 */
#ifndef BINADE_NUMA_HOST_H_
#define BINADE_NUMA_HOST_H_

#include "binade/host.h"
#include "numa/pinned_source.h"
#include "numa/policy.h"
#include "pool/driver/context.h"

/* Constant once it is made, but for what the source and the pool guard. */
struct binade_host {
    binade_pool *pool;
    struct binadei_pinned *pinned;
    uint64_t limit_bytes;
    struct binadei_placement place;
    const struct binadei_driver *driver;
    CUdevice device;
    bool has_primary; /* the context is retained */
    struct binadei_context home;
    _Atomic uint64_t mark; /* the home's; nobody reads it */
};

#endif
