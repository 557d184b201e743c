/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver's events, and what it says of captures. All is done inside a section
 * of the pool's context.
 */
#ifndef BINADE_POOL_STREAM_EVENT_H_
#define BINADE_POOL_STREAM_EVENT_H_

#include "pool/stream/streams.h"

/* Whether a stream captures a graph. */
enum binadei_capture_kind {
    BINADEI_CAPTURE_NONE,
    BINADEI_CAPTURE_IMPLICIT, /* none: the legacy stream's, while a blocking one
                               * does and nothing can be put on this */
    BINADEI_CAPTURE_BROKEN,   /* but its capture is invalid */
    BINADEI_CAPTURE_ACTIVE
};
struct binadei_capture {
    enum binadei_capture_kind kind;
    uint64_t id; /* the driver's, of an active one */
};

/* A stream state that is being closed gets its final event, if the driver is
 * willing.
 *  */
binade_status binadei_record_final(struct binadei_streams *streams,
                                   struct binadei_stream_state *stream_state);

/* An event of the pool's, in that context. In a section. BINADE_OK, or what the
 * driver said. */
BINADE_MUST_USE binade_status binadei_event_create(
    const struct binadei_streams *streams, CUcontext context, CUevent *out);
/* The same; NULL: the driver refuses. */
CUevent binadei_event_make(const struct binadei_streams *streams,
                           CUcontext context);
/* Records it behind all work of the context. Between the guard's two calls.
 * BINADE_OK; BINADE_E_BUSY: a capture was in the way, and is lost; or what the
 * driver said. */
BINADE_MUST_USE binade_status binadei_event_record_context(
    const struct binadei_stream_user *user, CUcontext context, CUevent event);
/* NULL is fine. An event of a context that is lost went with it. */
void binadei_event_destroy(const struct binadei_streams *streams,
                           CUevent event);

/* Waits for all work of all contexts; outside of a section, and between the
 * calls of a recorder (capture_guard.h). BINADE_OK, or the first thing that the
 * driver refused: then some may not be over. */
binade_status binadei_synchronise(const struct binadei_streams *streams);

/* Whether the stream captures a graph, or cannot be asked because another does
 * (the legacy stream). */
bool binadei_is_capturing(const struct binadei_streams *streams,
                          CUstream stream);
/* The same, and which capture it is. BINADE_OK, or what the driver said. */
BINADE_MUST_USE binade_status
binadei_capture_of(const struct binadei_streams *streams, CUstream stream,
                   struct binadei_capture *out);

#endif
