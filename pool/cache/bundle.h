/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bundles: where they come from, and where empty ones go. A member keeps a few;
 * what is too many goes on a stack of the pool, which is taken whole.
 */
#ifndef BINADE_POOL_CACHE_BUNDLE_H_
#define BINADE_POOL_CACHE_BUNDLE_H_

#include "pool/cache/state.h"

/* An empty one, or NULL: no memory. */
struct binadei_bundle *binadei_bundle_take(struct binadei_member *member,
                                           uint32_t class_index);
void binadei_bundle_spare(struct binadei_member *member,
                          struct binadei_bundle *bundle);

/* Before a member is dropped: what it keeps goes to the pool. */
void binadei_spares_leave(struct binadei_member *member);
/* Frees all. For an engine that ends. */
void binadei_spares_destroy(struct binadei_engine *engine);
void binadei_bundles_free(struct binadei_bundle *bundles);

#endif
