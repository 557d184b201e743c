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
/* Takes the right to end a pool, or the arena that it is of, for this thread.
 * MOIETY_E_DESTROYED: it was destroyed; MOIETY_E_IN_USE: another thread ends it. */
MOIETY_MUST_USE moiety_status moietyi_pool_take(moiety_pool *pool);
/* After that: it is unchanged, or has ended. */
void moietyi_pool_release(moiety_pool *pool);
/* moiety_pool_destroy() of any pool that is taken. The caller has checked the
 * arguments, and that this process is no child. */
MOIETY_MUST_USE moiety_status moietyi_pool_end(moiety_pool *pool,
                                               enum moietyi_end how,
                                               moiety_leaks *out_leaks);
/* The same for an abandoned pool: not if that may end a graph capture. A
 * moietyi_end_fn. */
moiety_status moietyi_pool_end_later(void *handle, enum moietyi_end how);
/* moiety_pool_destroy_later(), by an `end` of `handle` that ends the pool. */
moiety_status moietyi_pool_destroy_later(moiety_pool *pool, moietyi_end_fn *end,
                                         void *handle);

#endif
