/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the folder above needs of a pool that the public interface has not: host
 * arenas are pools with a source and settings of their own.
 */
#ifndef MOIETY_POOL_API_ARENA_H_
#define MOIETY_POOL_API_ARENA_H_

#include <stdint.h>

#include "moiety/pool.h"
#include "moiety/status.h"
#include "pool/base/later.h"
#include "pool/observe/expose/expose.h"

/* moiety_pool_create() without MOIETY_CONF, for an arena: moiety_pool_destroy()
 * refuses the pool. `out` is not NULL. */
MOIETY_MUST_USE moiety_status moietyi_arena_pool_create(
    const moiety_pool_options *options, moiety_pool **out);
/* moiety_pool_destroy() of any pool. The caller has checked the arguments, and
 * that this process is no child. */
MOIETY_MUST_USE moiety_status moietyi_pool_destroy(moiety_pool *pool,
                                                   moiety_leaks *out_leaks);
/* moiety_pool_destroy_later() of what `destroy` destroys. */
moiety_status moietyi_destroy_later(moietyi_destroy_fn *destroy, void *handle);

#endif
