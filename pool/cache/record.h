/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Events: recording those that a batch waits for, and asking whether they are
 * over. All is done inside a section of the pool's context.
 */
#ifndef BINADE_POOL_CACHE_RECORD_H_
#define BINADE_POOL_CACHE_RECORD_H_

#include "pool/cache/capture.h"
#include "pool/cache/state.h"

/* Records what a slot's freed memory waits for; the batch has one more event
 * then, or some. BINADE_OK; BINADE_E_BUSY: a capture is in the way, later;
 * BINADE_E_NO_HOST_MEMORY or what the driver said. After a failure the batch
 * may hold events that say nothing: record again or spare it. */
BINADE_MUST_USE binade_status binadei_record_slot(struct binadei_member *member,
                                                  struct binadei_slot *slot,
                                                  struct binadei_batch *batch);
/* The same in a section of its own. */
BINADE_MUST_USE binade_status
binadei_batch_record(struct binadei_member *member, struct binadei_slot *slot,
                     struct binadei_batch *batch);
/* The same for an event of someone else's: one of ours comes after it. */
BINADE_MUST_USE binade_status binadei_record_after(
    struct binadei_member *member, CUevent event, struct binadei_batch *batch);
/* The same for all work of all contexts. */
BINADE_MUST_USE binade_status binadei_record_any(struct binadei_member *member,
                                                 struct binadei_batch *batch);

/* Makes spare batches that have an event already. Creating one can take as long
 * as other threads keep the driver busy, half a second and more, so it is done
 * ahead: when the pool is made, and then for several at a time. What the driver
 * refuses is not made. */
void binadei_record_stock(struct binadei_engine *engine, unsigned count);

/* A slot that is being closed gets its final event, if the driver is willing.
 */
binade_status binadei_record_final(struct binadei_engine *engine,
                                   struct binadei_slot *slot);

/* An event of the pool's, in that context. In a section. BINADE_OK, or what the
 * driver said. */
BINADE_MUST_USE binade_status binadei_event_create(
    const struct binadei_engine *engine, CUcontext context, CUevent *out);
/* Records it behind all work of the context. Between the guard's two calls.
 * BINADE_OK; BINADE_E_BUSY: a capture was in the way, and is lost; or what the
 * driver said. */
BINADE_MUST_USE binade_status binadei_event_record_context(
    struct binadei_member *member, CUcontext context, CUevent event);
/* NULL is fine. An event of a context that is lost went with it. */
void binadei_event_destroy(const struct binadei_engine *engine, CUevent event);

/* True when all that was recorded for the batch is over. Never waits. */
bool binadei_batch_is_done(struct binadei_member *member,
                           struct binadei_batch *batch);

/* Waits for all work of all contexts; outside of a section, and between the
 * calls of a recorder (guard.h). BINADE_OK, or the first thing that the driver
 * refused: then some may not be over. */
binade_status binadei_synchronise(const struct binadei_engine *engine);

/* Whether the stream captures a graph, or cannot be asked because another does
 * (the legacy stream). */
bool binadei_is_capturing(const struct binadei_engine *engine, CUstream stream);
/* The same, and which capture it is. BINADE_OK, or what the driver said. */
BINADE_MUST_USE binade_status
binadei_capture_of(const struct binadei_engine *engine, CUstream stream,
                   struct binadei_capture *out);

#endif
