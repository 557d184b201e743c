/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that more than one stream uses: a table by address, under a lock, for
 * blocks with the SPECIAL bit. And what a freed block waits for, where somebody
 * else than the caches keeps it meanwhile (checked mode, private arenas): an event
 * of all contexts that was recorded after the free, by its number (epoch.h), so a
 * wait costs neither memory nor an event of its own.
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
uint64_t binadei_uses_ask(struct binadei_thread_state *by);
/* Forgets blocks that are done without that; the role of ANY's stream state is
 * held. */
void binadei_uses_forget(struct binadei_engine *engine);
void binadei_uses_destroy(struct binadei_engine *engine);

struct binadei_wait {
    uint64_t number; /* of the event; 0: nothing is pending */
};

/* Notes a use of a block that has no metadata byte of its own at `address`. The
 * statuses of binadei_use(). */
BINADE_MUST_USE binade_status binadei_wait_note(struct binadei_call *call,
                                                binade_devptr address,
                                                binade_stream stream);

/* What `address` waits for whose free on the call's stream, or behind `event`,
 * this is; forgets the uses that were noted. BINADE_OK, or why an event of the
 * caller's cannot be waited for. */
BINADE_MUST_USE binade_status binadei_wait_begin(struct binadei_call *call,
                                                 binade_devptr address,
                                                 CUevent event,
                                                 struct binadei_wait *out);
/* What all work that was queued until now waits for. */
struct binadei_wait binadei_wait_for_all(const struct binadei_call *call);
/* Whether it is over, once the event that it waits for was recorded, by anybody;
 * by this call if nobody has. In a section of the pool's context. */
bool binadei_wait_is_over(struct binadei_call *call,
                          const struct binadei_wait *wait);
/* Whether it is so only after binadei_wait_synchronise(): an old driver. */
bool binadei_wait_needs_synchronise(const struct binadei_call *call,
                                    const struct binadei_wait *wait);
/* Waits for all work; outside of sections. False: a capture guard is held, or
 * the driver refused. */
bool binadei_wait_synchronise(struct binadei_call *call);
/* binadei_wait_is_over() outside of sections. `may_wait`: for all work, where an
 * old driver knows no other way. */
bool binadei_wait_ask(struct binadei_call *call,
                      const struct binadei_wait *wait, bool may_wait);

/* Whether the call's stream is capturing a graph. In a section. */
bool binadei_wait_is_capturing(const struct binadei_call *call);
/* The stream that the call's frees are ordered on, if it is one of the pool's
 * own context and this thread may put work on it; or NULL. */
CUstream binadei_wait_stream(const struct binadei_call *call);
/* Whether the call's stream is of a context that the pool does not know. */
bool binadei_wait_is_of_stranger(const struct binadei_call *call);

#endif
