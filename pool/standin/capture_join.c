/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The streams of a capture, and whether all that forked from its origin was
 * joined again: the origin must wait for the last of what each other one did.
 */
#include <stdlib.h>

#include "pool/standin/capture.h"
#include "pool/standin/graph.h"
#include "pool/standin/handle.h"

struct CUgraph_st *capture_graph(const struct capture *capture)
{
    CUresult why;
    return handle_object(HANDLE_GRAPH, capture->graph, &why);
}

/* Streams of any context may have joined. */
void capture_each_stream(const struct capture *capture, stream_visit *visit,
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

static void mark(bool *is_reached, const struct node_set *set)
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
bool capture_is_joined(const struct capture *capture)
{
    const struct CUgraph_st *graph = capture_graph(capture);
    struct join_check check = {.is_reached = engine_alloc(graph->count + 1),
                               .is_joined = true};
    mark(check.is_reached, &capture->origin->capture_tail);
    for (size_t i = graph->count; i > 0; i--)
        if (check.is_reached[i - 1])
            mark(check.is_reached, &graph->nodes[i - 1]->after);
    capture_each_stream(capture, check_joined, &check);
    free(check.is_reached);
    return check.is_joined;
}
