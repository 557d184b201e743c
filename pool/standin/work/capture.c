/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Captures under way. Streams join one by waiting for an event that was
 * recorded in it.
 */
#include "pool/standin/work/capture.h"

#include <stdlib.h>

#include "pool/standin/base/handle.h"
#include "pool/standin/base/process.h"
#include "pool/standin/work/graph.h"

static struct capture *captures; /* all under way */
static uint64_t last_id;

/* Breaks the captures that blocking streams of `stream`'s context are in. */
static CUresult break_implicit(const struct CUstream_st *stream, bool breaks)
{
    CUresult code = CUDA_SUCCESS;
    if (!captures || !stream_is_legacy(stream))
        return code;
    for (struct CUstream_st *s = stream->engine->streams; s; s = s->next) {
        if (!s->capture || !stream_is_blocking(s))
            continue;
        code = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        s->capture->is_invalid |= breaks;
    }
    return code;
}

CUresult capture_check_launch(const struct CUstream_st *stream)
{
    if (stream->capture && stream->capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return break_implicit(stream, true);
}

CUresult capture_check_info(const struct CUstream_st *stream)
{
    return break_implicit(stream, false);
}

CUresult capture_refuse(const struct CUstream_st *stream)
{
    if (!stream->capture)
        return CUDA_SUCCESS;
    bool was_invalid = stream->capture->is_invalid;
    stream->capture->is_invalid = true;
    return was_invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                       : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_check_wait(const struct CUstream_st *stream)
{
    return stream->capture ? capture_refuse(stream)
                           : break_implicit(stream, true);
}

CUresult capture_break_context(const struct CUctx_st *context)
{
    CUresult code = CUDA_SUCCESS;
    for (struct capture *c = captures; c; c = c->next) {
        if (c->context != context)
            continue;
        c->is_invalid = true;
        code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return code;
}

/* A potentially unsafe call breaks a capture of the calling thread unless that
 * is relaxed, and any thread's global one unless the caller says otherwise. */
static bool conflicts(const struct capture *capture,
                      const struct thread_state *caller)
{
    if (caller->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (capture->thread_serial == caller->serial &&
        capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return true;
    return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           caller->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult capture_break_unsafe(void)
{
    CUresult code = CUDA_SUCCESS;
    const struct thread_state *caller = thread_state();
    for (struct capture *c = captures; c; c = c->next) {
        if (!conflicts(c, caller))
            continue;
        c->is_invalid = true;
        code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return code;
}

CUresult capture_gate(void)
{
    standin_lock();
    return standin_leave(capture_break_unsafe());
}

static struct CUgraph_st *graph_of(const struct capture *capture)
{
    CUresult why;
    return handle_object(HANDLE_GRAPH, capture->graph, &why);
}

typedef void stream_visit(struct CUstream_st *stream, void *argument);

/* Streams of any context may have joined. */
static void each_stream(const struct capture *capture, stream_visit *visit,
                        void *argument)
{
    for (struct CUctx_st *c = context_first(); c; c = c->next) {
        if (!c->engine)
            continue;
        for (struct CUstream_st *s = c->engine->streams; s; s = s->next)
            if (s->capture == capture)
                visit(s, argument);
    }
}

static void capture_mark(bool *is_reached, const struct node_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        is_reached[graph_node(set->nodes[i])->index] = true;
}

struct join_check {
    bool *is_reached; /* by node: the origin follows it */
    bool is_joined;
};

static void check_joined(struct CUstream_st *stream, void *argument)
{
    struct join_check *check = argument;
    const struct node_set *tail = &stream->capture_tail;
    for (size_t i = 0; i < tail->count; i++)
        check->is_joined &=
            check->is_reached[graph_node(tail->nodes[i])->index];
}

/* Whether the origin follows all that the other streams did. A node's
 * dependencies are older than itself, so one pass from the newest will do. */
static bool is_joined(const struct capture *capture)
{
    const struct CUgraph_st *graph = graph_of(capture);
    struct join_check check = {.is_reached = engine_alloc(graph->count + 1),
                               .is_joined = true};
    capture_mark(check.is_reached, &capture->origin->capture_tail);
    for (size_t i = graph->count; i > 0; i--)
        if (check.is_reached[i - 1])
            capture_mark(check.is_reached, &graph->nodes[i - 1]->after);
    each_stream(capture, check_joined, &check);
    free(check.is_reached);
    return check.is_joined;
}

CUresult capture_add(struct CUstream_st *stream, const struct work *work)
{
    struct CUgraphNode_st *node =
        graph_add(graph_of(stream->capture), work, &stream->capture_tail);
    if (!node) {
        struct work lost = *work;
        if (lost.drop)
            lost.drop(&lost);
        stream->capture->is_invalid = true;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    node_set_clear(&stream->capture_tail);
    node_set_add(&stream->capture_tail, node->handle);
    return CUDA_SUCCESS;
}

void capture_record(const struct CUstream_st *stream, struct CUevent_st *event)
{
    event->capture_id = stream->capture->id;
    node_set_clear(&event->capture_tail);
    node_set_add_all(&event->capture_tail, &stream->capture_tail);
}

static struct capture *capture_find(uint64_t id)
{
    struct capture *capture = captures;
    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

CUresult capture_query(const struct CUevent_st *event)
{
    struct capture *capture = capture_find(event->capture_id);
    if (!capture)
        return CUDA_ERROR_INVALID_VALUE;
    capture->is_invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
}

/* A capturing stream waits for an event from outside its capture. */
static CUresult wait_outside(struct capture *capture, struct capture *other,
                             const struct CUevent_st *event)
{
    if (!event->capture_id && !event->op)
        return CUDA_SUCCESS; /* never recorded: nothing to wait for */
    capture->is_invalid = true;
    if (!other)
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    other->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
}

CUresult capture_wait(struct CUstream_st *stream,
                      const struct CUevent_st *event)
{
    struct capture *other =
        event->capture_id ? capture_find(event->capture_id) : NULL;
    if (stream->capture && stream->capture != other)
        return wait_outside(stream->capture, other, event);
    if (!other)
        return CUDA_ERROR_CAPTURED_EVENT; /* that capture is over */
    if (other->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream_is_legacy(stream)) {
        other->is_invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    stream->capture = other;
    node_set_add_all(&stream->capture_tail, &event->capture_tail);
    return CUDA_SUCCESS;
}

CUresult capture_begin(struct CUstream_st *stream, CUstreamCaptureMode mode)
{
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream_is_legacy(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct CUgraph_st *graph = graph_make();
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    graph->is_capturing = true;
    struct capture *capture = engine_alloc(sizeof(*capture));
    capture->id = ++last_id;
    capture->mode = mode;
    capture->thread_serial = thread_state()->serial;
    capture->context = stream->context;
    capture->origin = stream;
    capture->graph = graph->handle;
    capture->next = captures;
    captures = capture;
    stream->capture = capture;
    return CUDA_SUCCESS;
}

static void capture_leave(struct CUstream_st *stream, void *unused)
{
    (void)unused;
    stream->capture = NULL;
    node_set_clear(&stream->capture_tail);
}

/* The capture is over; its graph stays. */
static void capture_finish(struct capture *capture)
{
    each_stream(capture, capture_leave, NULL);
    struct capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    graph_of(capture)->is_capturing = false;
    free(capture);
}

CUresult capture_end(struct CUstream_st *stream, CUgraph *out)
{
    struct capture *capture = stream->capture;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        capture->thread_serial != thread_state()->serial)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    struct CUgraph_st *graph = graph_of(capture);
    CUresult code = CUDA_SUCCESS;
    if (capture->is_invalid)
        code = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!is_joined(capture))
        code = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    capture_finish(capture);
    *out = code == CUDA_SUCCESS ? graph->handle : NULL;
    if (code != CUDA_SUCCESS)
        graph_free(graph);
    return code;
}

static void discard(struct capture *capture)
{
    struct CUgraph_st *graph = graph_of(capture);
    capture_finish(capture);
    graph_free(graph);
}

void capture_forget_stream(struct CUstream_st *stream)
{
    struct capture *capture = stream->capture;
    if (!capture)
        return;
    capture->is_invalid = true;
    if (capture->origin == stream)
        discard(capture); /* nobody could end it */
    else
        capture_leave(stream, NULL);
}

void capture_forget_context(const struct CUctx_st *context)
{
    struct capture *capture = captures;
    while (capture) {
        struct capture *next = capture->next;
        if (capture->context == context)
            discard(capture);
        capture = next;
    }
}
