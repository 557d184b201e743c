/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the folder above needs of a pool that the public interface has not: host
 * arenas are pools with a source and settings of their own.
 */
#ifndef BINADE_POOL_API_ARENA_H_
#define BINADE_POOL_API_ARENA_H_

#include <stdint.h>

#include "binade/pool.h"
#include "binade/status.h"
#include "pool/observe/expose/expose.h"

/* binade_pool_create() without BINADE_CONF, for an arena: binade_pool_destroy()
 * refuses the pool. `out` is not NULL. */
BINADE_MUST_USE binade_status binadei_arena_pool_create(
    const binade_pool_options *options, binade_pool **out);
/* binade_pool_destroy() of any pool. The caller has checked the arguments, and
 * that this process is no child. */
BINADE_MUST_USE binade_status binadei_pool_destroy(binade_pool *pool,
                                                   binade_leaks *out_leaks);

#endif
