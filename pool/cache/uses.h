/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that more than one stream uses: a table by address, under a lock, for
 * blocks with the SPECIAL bit. It also has what a freed block waits for while
 * checked mode or a private arena keeps it: the number (epoch.h) of an event of
 * all contexts that was recorded after the free. So a wait costs neither memory
 * nor an event of its own.
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

/* Asks the streams of blocks that were freed with uses. A block is done if all
 * of its streams are idle, whatever other streams do. Returns the grains. In a
 * section; no capture guard is held. */
uint64_t moietyi_uses_ask(struct moietyi_thread_state *by);
/* Forgets blocks that became done by other ways; the role of ANY's stream state
 * is held. */
void moietyi_uses_forget(struct moietyi_engine *engine);
void moietyi_uses_destroy(struct moietyi_engine *engine);

struct moietyi_wait {
    uint64_t number; /* of the event; 0: nothing is pending */
};

/* What `address` waits for, which the call frees on its stream or behind
 * `event`; forgets its noted uses. MOIETY_OK, or why an event of the caller's
 * cannot be waited for. */
MOIETY_MUST_USE moiety_status moietyi_wait_begin(struct moietyi_call *call,
                                                 moiety_devptr address,
                                                 CUevent event,
                                                 struct moietyi_wait *out);
/* What all work that is queued so far waits for. */
struct moietyi_wait moietyi_wait_for_all(const struct moietyi_call *call);
/* Whether it is over, once the event that it waits for was recorded by any
 * thread; records the event if none has. In a section of the pool's context. */
bool moietyi_wait_is_over(struct moietyi_call *call,
                          const struct moietyi_wait *wait);
/* Whether only moietyi_wait_synchronise() can end it: an old driver. */
bool moietyi_wait_needs_synchronise(const struct moietyi_call *call,
                                    const struct moietyi_wait *wait);
/* Waits for all work; outside of sections. False: a capture guard is held, or
 * the driver refused. */
bool moietyi_wait_synchronise(struct moietyi_call *call);
/* moietyi_wait_is_over() outside of sections. `may_wait`: for all work, if an
 * old driver has no other way. */
bool moietyi_wait_ask(struct moietyi_call *call,
                      const struct moietyi_wait *wait, bool may_wait);

/* Whether the call's stream is capturing a graph. In a section. */
bool moietyi_wait_is_capturing(const struct moietyi_call *call);
/* The stream that orders the call's frees, if it is one of the pool's own
 * context and this thread may queue work on it; or NULL. */
CUstream moietyi_wait_stream(const struct moietyi_call *call);
/* Whether the call's stream is of a context that the pool does not know. */
bool moietyi_wait_is_of_stranger(const struct moietyi_call *call);

#endif
