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
    MOIETYI_CAPTURE_IMPLICIT, /* none: of the legacy stream, while a blocking
                               * stream captures */
    MOIETYI_CAPTURE_BROKEN,   /* but its capture is invalid */
    MOIETYI_CAPTURE_ACTIVE
};
struct moietyi_capture {
    enum moietyi_capture_kind kind;
    uint64_t id; /* the driver's, of an active one */
};

/* Records the final event of a stream state that is being closed, unless the
 * driver refuses. */
moiety_status moietyi_record_final(struct moietyi_streams *streams,
                                   struct moietyi_stream_state *stream_state);

/* Makes an event of the pool in that context. In a section. MOIETY_OK, or the
 * driver's error. */
MOIETY_MUST_USE moiety_status moietyi_event_create(
    const struct moietyi_streams *streams, CUcontext context, CUevent *out);
/* The same; NULL: the driver refuses. */
CUevent moietyi_event_make(const struct moietyi_streams *streams,
                           CUcontext context);
/* Records it behind all work of the context. Between the guard's two calls.
 * MOIETY_OK; MOIETY_E_CAPTURING: it met a capture, and broke it; or the driver's
 * error. */
MOIETY_MUST_USE moiety_status moietyi_event_record_context(
    const struct moietyi_stream_user *user, CUcontext context, CUevent event);
/* NULL is fine. An event of a lost context is gone with it. */
void moietyi_event_destroy(const struct moietyi_streams *streams,
                           CUevent event);

/* Whether the driver's code says that it met a capture; notes that. */
bool moietyi_met_capture(CUresult code);
/* Whether the stream captures a graph, or cannot be asked because another
 * stream does (the legacy stream). */
bool moietyi_is_capturing(const struct moietyi_streams *streams,
                          CUstream stream);
/* The same, and which capture it is. MOIETY_OK, or the driver's error. */
MOIETY_MUST_USE moiety_status
moietyi_capture_of(const struct moietyi_streams *streams, CUstream stream,
                   struct moietyi_capture *out);

#endif
