/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocation on behalf of others in this folder.
 */
#ifndef BINADE_POOL_API_ALLOC_H_
#define BINADE_POOL_API_ALLOC_H_

#include "binade/pool.h"
#include "pool/core/ops.h"

/* As binade_alloc_aligned() without a look for a hit. */
BINADE_MUST_USE binade_status
binadei_alloc(binade_pool *pool, const struct binadei_alloc_args *args,
              binade_stream stream, binade_devptr *out);

#endif
