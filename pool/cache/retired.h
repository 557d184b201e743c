/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A slot's stack of retired batches. It is pushed to one batch at a time and
 * taken whole, so there is no ABA; who took it is alone with its batches, and
 * puts back as one chain what it does not need.
 */
#ifndef BINADE_POOL_CACHE_RETIRED_H_
#define BINADE_POOL_CACHE_RETIRED_H_

#include "pool/cache/state.h"

/* Puts a batch that is whole where others find it. */
void binadei_retired_push(struct binadei_engine *engine,
                          struct binadei_slot *slot,
                          struct binadei_batch *batch);
/* All batches of a slot, newest first; NULL: none. */
struct binadei_batch *binadei_retired_take(struct binadei_slot *slot);
/* A chain, newest first, goes back. */
void binadei_retired_return(struct binadei_slot *slot,
                            struct binadei_batch *newest);

/* Newest first becomes oldest first, and the other way round. */
struct binadei_batch *binadei_retired_reversed(struct binadei_batch *batch);

#endif
