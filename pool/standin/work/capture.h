/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Captures under way: which streams are in them, what may be called meanwhile,
 * and what a call that may not does to them.
 *
 * All functions: lock held.
 */
#ifndef MOIETY_POOL_STANDIN_WORK_CAPTURE_H_
#define MOIETY_POOL_STANDIN_WORK_CAPTURE_H_

#include "pool/standin/work/op.h"

struct capture {
    struct capture *next; /* of all under way in the process */
    uint64_t id;          /* from 1; never used again */
    CUstreamCaptureMode mode;
    uint64_t thread_serial; /* of the thread that began it */
    struct CUctx_st *context;
    struct CUstream_st *origin;
    CUgraph graph; /* handle of what is being made */
    bool is_invalid;
};

/* Whether work may go on `stream`: SUCCESS, IMPLICIT (the legacy stream while
 * a blocking one captures) or INVALIDATED. */
CUresult capture_check_launch(const struct CUstream_st *stream);
/* Whether `stream` may be waited for or queried. */
CUresult capture_check_wait(const struct CUstream_st *stream);
/* Whether it may be asked if `stream` captures; breaks nothing. */
CUresult capture_check_info(const struct CUstream_st *stream);
/* A call that no capture allows on `stream`: breaks its capture. SUCCESS when
 * the stream does not capture. */
CUresult capture_refuse(const struct CUstream_st *stream);

/* `work` becomes a node; the stream captures and the capture is valid. */
CUresult capture_add(struct CUstream_st *stream, const struct work *work);
void capture_record(const struct CUstream_st *stream, struct CUevent_st *event);
/* What a query says of an event that a capture recorded: the question loses a
 * capture that is under way, and after it the event is none. */
CUresult capture_query(const struct CUevent_st *event);
/* cuStreamWaitEvent where the stream or the event is in a capture. */
CUresult capture_wait(struct CUstream_st *stream,
                      const struct CUevent_st *event);

/* Called by standin_enter() for entries that BREAKS_CAPTURE, lock NOT held:
 * capture_break_unsafe(). */
CUresult capture_gate(void);
/* A potentially unsafe call by this thread: breaks the captures that do not
 * allow one; UNSUPPORTED when there was one. */
CUresult capture_break_unsafe(void);
/* Breaks all captures in `context`, whatever their mode; UNSUPPORTED when
 * there was one. */
CUresult capture_break_context(const struct CUctx_st *context);

CUresult capture_begin(struct CUstream_st *stream, CUstreamCaptureMode mode);
CUresult capture_end(struct CUstream_st *stream, CUgraph *out);
void capture_forget_stream(struct CUstream_st *stream);
void capture_forget_context(const struct CUctx_st *context);

#endif
