/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocation on behalf of others in this folder.
 */
#ifndef MOIETY_POOL_API_ALLOC_H_
#define MOIETY_POOL_API_ALLOC_H_

#include "moiety/pool.h"
#include "pool/core/ops.h"

/* moiety_alloc() without a look for a hit, by checked arguments. */
MOIETY_MUST_USE moiety_status
moietyi_alloc(moiety_pool *pool, const struct moietyi_alloc_args *args,
              moiety_stream stream, moiety_devptr *out);

/* tenant.c: moiety_alloc_with() for a tenant. `pool` is NULL or to be the tenant's;
 * `out` is not NULL. */
MOIETY_MUST_USE moiety_status
moietyi_tenant_alloc(moiety_pool *pool, moiety_tenant handle,
                     const struct moietyi_alloc_args *args,
                     moiety_stream stream, moiety_devptr *out);

/* What the thread's cache or the pool has free, by a call of nobody. MOIETY_OK,
 * MOIETY_E_INVALID, or MOIETY_E_WOULD_BLOCK without a message. */
MOIETY_MUST_USE moiety_status moietyi_alloc_no_call(moiety_pool *pool,
                                                    size_t size_bytes,
                                                    moiety_stream stream,
                                                    moiety_devptr *out);

#endif
