/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver's events, and what it says of captures. All is done inside a section
 * of the pool's context.
 */
#ifndef MOIETY_POOL_STREAM_EVENT_H_
#define MOIETY_POOL_STREAM_EVENT_H_

#include "pool/stream/streams.h"

/* Whether a stream captures a graph. */
enum moietyi_capture_kind {
    MOIETYI_CAPTURE_NONE,
    MOIETYI_CAPTURE_IMPLICIT, /* none: the legacy stream's, while a blocking one
                               * does and nothing can be put on this */
    MOIETYI_CAPTURE_BROKEN,   /* but its capture is invalid */
    MOIETYI_CAPTURE_ACTIVE
};
struct moietyi_capture {
    enum moietyi_capture_kind kind;
    uint64_t id; /* the driver's, of an active one */
};

/* A stream state that is being closed gets its final event, if the driver is
 * willing.
 *  */
moiety_status moietyi_record_final(struct moietyi_streams *streams,
                                   struct moietyi_stream_state *stream_state);

/* An event of the pool's, in that context. In a section. MOIETY_OK, or what the
 * driver said. */
MOIETY_MUST_USE moiety_status moietyi_event_create(
    const struct moietyi_streams *streams, CUcontext context, CUevent *out);
/* The same; NULL: the driver refuses. */
CUevent moietyi_event_make(const struct moietyi_streams *streams,
                           CUcontext context);
/* Records it behind all work of the context. Between the guard's two calls.
 * MOIETY_OK; MOIETY_E_BUSY: a capture was in the way, and is lost; or what the
 * driver said. */
MOIETY_MUST_USE moiety_status moietyi_event_record_context(
    const struct moietyi_stream_user *user, CUcontext context, CUevent event);
/* NULL is fine. An event of a context that is lost went with it. */
void moietyi_event_destroy(const struct moietyi_streams *streams,
                           CUevent event);

/* Whether that is what the driver says of a capture that is in the way; it is
 * noted. */
bool moietyi_met_capture(CUresult code);
/* Whether the stream captures a graph, or cannot be asked because another does
 * (the legacy stream). */
bool moietyi_is_capturing(const struct moietyi_streams *streams,
                          CUstream stream);
/* The same, and which capture it is. MOIETY_OK, or what the driver said. */
MOIETY_MUST_USE moiety_status
moietyi_capture_of(const struct moietyi_streams *streams, CUstream stream,
                   struct moietyi_capture *out);

#endif
