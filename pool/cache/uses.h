/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that more than one stream uses: a table by address, under a lock, for
 * blocks with the SPECIAL bit. And what a freed block waits for, where somebody
 * else than the caches keeps it meanwhile (checked mode, private arenas): an event
 * of all contexts that was recorded after the free, by its number (epoch.h), so a
 * wait costs neither memory nor an event of its own.
 */
#ifndef MOIETY_POOL_CACHE_USES_H_
#define MOIETY_POOL_CACHE_USES_H_

#include "pool/cache/cache.h"

/* Frees a block behind all streams that use it, the caller's among them, and
 * behind `event` unless that is NULL; then the caller's stream does not count.
 * MOIETY_OK, or why the block is still the caller's. */
MOIETY_MUST_USE moiety_status moietyi_put_used(struct moietyi_call *call,
                                               moiety_devptr address,
                                               CUevent event);

/* Asks the streams of blocks that were freed with uses: where all of a block's
 * have nothing left to do, it is done, whatever other streams are at. Returns the
 * grains. In a section; no capture guard is held. */
uint64_t moietyi_uses_ask(struct moietyi_thread_state *by);
/* Forgets blocks that are done without that; the role of ANY's stream state is
 * held. */
void moietyi_uses_forget(struct moietyi_engine *engine);
void moietyi_uses_destroy(struct moietyi_engine *engine);

struct moietyi_wait {
    uint64_t number; /* of the event; 0: nothing is pending */
};

/* What `address` waits for whose free on the call's stream, or behind `event`,
 * this is; forgets the uses that were noted. MOIETY_OK, or why an event of the
 * caller's cannot be waited for. */
MOIETY_MUST_USE moiety_status moietyi_wait_begin(struct moietyi_call *call,
                                                 moiety_devptr address,
                                                 CUevent event,
                                                 struct moietyi_wait *out);
/* What all work that was queued until now waits for. */
struct moietyi_wait moietyi_wait_for_all(const struct moietyi_call *call);
/* Whether it is over, once the event that it waits for was recorded, by anybody;
 * by this call if nobody has. In a section of the pool's context. */
bool moietyi_wait_is_over(struct moietyi_call *call,
                          const struct moietyi_wait *wait);
/* Whether it is so only after moietyi_wait_synchronise(): an old driver. */
bool moietyi_wait_needs_synchronise(const struct moietyi_call *call,
                                    const struct moietyi_wait *wait);
/* Waits for all work; outside of sections. False: a capture guard is held, or
 * the driver refused. */
bool moietyi_wait_synchronise(struct moietyi_call *call);
/* moietyi_wait_is_over() outside of sections. `may_wait`: for all work, where an
 * old driver knows no other way. */
bool moietyi_wait_ask(struct moietyi_call *call,
                      const struct moietyi_wait *wait, bool may_wait);

/* Whether the call's stream is capturing a graph. In a section. */
bool moietyi_wait_is_capturing(const struct moietyi_call *call);
/* The stream that the call's frees are ordered on, if it is one of the pool's
 * own context and this thread may put work on it; or NULL. */
CUstream moietyi_wait_stream(const struct moietyi_call *call);
/* Whether the call's stream is of a context that the pool does not know. */
bool moietyi_wait_is_of_stranger(const struct moietyi_call *call);

#endif
