/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bundles and batches: where they come from, and where empty ones go. A member
 * keeps a few; what is too many goes on a stack of the pool, which is taken
 * whole.
 */
#ifndef BINADE_POOL_CACHE_BUNDLE_H_
#define BINADE_POOL_CACHE_BUNDLE_H_

#include "pool/cache/state.h"

/* An empty one, or NULL: no memory. */
struct binadei_bundle *binadei_bundle_take(struct binadei_member *member,
                                           uint32_t class_index);
void binadei_bundle_spare(struct binadei_member *member,
                          struct binadei_bundle *bundle);

/* One without bundles and recorded events, or NULL: no memory. */
struct binadei_batch *binadei_batch_take(struct binadei_member *member);
void binadei_batch_spare(struct binadei_member *member,
                         struct binadei_batch *batch);
/* A chain of them goes to the pool. */
void binadei_batches_share(struct binadei_engine *engine,
                           struct binadei_batch *first);
/* Room for `count` events. */
bool binadei_batch_reserve(struct binadei_batch *batch, uint32_t count);

/* Before a member is dropped: what it keeps goes to the pool. */
void binadei_spares_leave(struct binadei_member *member);
/* Frees all; events too. For an engine that ends. */
void binadei_spares_destroy(struct binadei_engine *engine);
void binadei_bundles_free(struct binadei_bundle *bundles);
void binadei_batches_free(const struct binadei_engine *engine,
                          struct binadei_batch *batches);

#endif
