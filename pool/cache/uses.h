/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that more than one stream uses: a table by address, under a lock, for
 * blocks with the SPECIAL bit.
 */
#ifndef BINADE_POOL_CACHE_USES_H_
#define BINADE_POOL_CACHE_USES_H_

#include "pool/cache/cache.h"

/* Frees a block behind all streams that use it, the caller's among them, and
 * behind `event` unless that is NULL; then the caller's stream does not count.
 * BINADE_OK, or why the block is still the caller's. */
BINADE_MUST_USE binade_status binadei_put_used(struct binadei_call *call,
                                               binade_devptr address,
                                               CUevent event);

/* Asks the streams of blocks that were freed with uses: where all of a block's
 * have nothing left to do, it is done, whatever other streams are at. Returns the
 * grains. In a section; no capture guard is held. */
uint64_t binadei_uses_ask(struct binadei_member *by);
/* Forgets blocks that are done without that; the role of ANY's slot is held. */
void binadei_uses_forget(struct binadei_engine *engine);
void binadei_uses_destroy(struct binadei_engine *engine);

#endif
