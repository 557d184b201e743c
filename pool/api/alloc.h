/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocation on behalf of others in this folder.
 */
#ifndef MOIETY_POOL_API_ALLOC_H_
#define MOIETY_POOL_API_ALLOC_H_

#include "moiety/pool.h"
#include "pool/core/ops.h"

/* As moiety_alloc_aligned() without a look for a hit. */
MOIETY_MUST_USE moiety_status
moietyi_alloc(moiety_pool *pool, const struct moietyi_alloc_args *args,
              moiety_stream stream, moiety_devptr *out);

#endif
