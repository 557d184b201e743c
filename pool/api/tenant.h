/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What others in this folder need of tenants.
 */
#ifndef BINADE_POOL_API_TENANT_H_
#define BINADE_POOL_API_TENANT_H_

#include <stdbool.h>

#include "pool/buddy/classes.h"
#include "pool/cache/thread.h"

/* The way back that is as good as a hit: takes the tag off a small block and
 * pushes it, if nothing else is noted of it and the magazine has room. False:
 * nothing has changed. Inside, as hit.h says it. */
bool binadei_tenant_free(const struct binadei_thread *thread,
                         const struct binadei_route *route, binade_pool *pool,
                         binade_devptr address);

#endif
