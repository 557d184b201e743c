/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The way back of a tenant's block that is as good as a hit.
 */
#ifndef BINADE_POOL_TENANT_H_
#define BINADE_POOL_TENANT_H_

#include <stdbool.h>

#include "pool/cache/thread.h"

/* Takes the tag off a small block and pushes it, if nothing else is noted of it
 * and the magazine has room. False: nothing has changed. */
bool binadei_tenant_free(struct binadei_thread *thread,
                         struct binadei_route *route, binade_pool *pool,
                         binade_devptr address);

#endif
