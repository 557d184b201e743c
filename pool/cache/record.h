/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Events of the driver's: making, recording and ending them. All is done inside a
 * section of the pool's context.
 */
#ifndef BINADE_POOL_CACHE_RECORD_H_
#define BINADE_POOL_CACHE_RECORD_H_

#include "pool/cache/capture.h"
#include "pool/cache/state.h"

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
