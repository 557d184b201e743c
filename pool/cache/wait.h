/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a freed block waits for, where somebody else than the caches keeps it
 * meanwhile: the pool's checked mode. A wait is a batch without blocks. It is
 * its holder's alone.
 */
#ifndef BINADE_POOL_CACHE_WAIT_H_
#define BINADE_POOL_CACHE_WAIT_H_

#include "pool/cache/cache.h"

/* Notes a use of a block that has no metadata byte of its own at `address`. The
 * statuses of binadei_use(). */
BINADE_MUST_USE binade_status binadei_wait_note(struct binadei_call *call,
                                                binade_devptr address,
                                                binade_stream stream);

/* One that waits for nothing; NULL: no memory. */
struct binadei_batch *binadei_wait_make(struct binadei_call *call);
/* Lets it wait for what the free of `address` on the call's stream waits for,
 * or behind `event`, and for the uses that were noted, which it forgets. What
 * cannot be recorded now waits for all work, from a later look on.
 * BINADE_OK, or why an event of the caller's cannot be waited for. */
BINADE_MUST_USE binade_status binadei_wait_record(struct binadei_call *call,
                                                  binade_devptr address,
                                                  CUevent event,
                                                  struct binadei_batch *wait);
/* Whether it is over; in a section of the pool's context. */
bool binadei_wait_is_over(struct binadei_call *call,
                          struct binadei_batch *wait);
/* Whether it is so only after binadei_wait_synchronise(): an old driver. */
bool binadei_wait_needs_synchronise(const struct binadei_batch *wait);
/* Waits for all work; outside of sections. False: a capture guard is held, or
 * the driver refused. */
bool binadei_wait_synchronise(struct binadei_call *call);
/* After a synchronisation that began when it had been recorded. */
void binadei_wait_finish(struct binadei_batch *wait);

void binadei_wait_spare(struct binadei_call *call, struct binadei_batch *wait);
/* The same where no call is under way. */
void binadei_wait_drop(struct binadei_engine *engine,
                       struct binadei_batch *wait);

/* Whether the call's stream is capturing a graph. In a section. */
bool binadei_wait_is_capturing(const struct binadei_call *call);
/* The stream that the call's frees are ordered on, if it is one of the pool's
 * own context and this thread may put work on it; or NULL. */
CUstream binadei_wait_stream(const struct binadei_call *call);
/* Whether the call's stream is of a context that the pool does not know. */
bool binadei_wait_is_of_stranger(const struct binadei_call *call);

#endif
