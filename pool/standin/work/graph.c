/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Graphs are run in the order in which their nodes were captured: one of the
 * orders that their dependencies allow.
 */
#include "pool/standin/work/graph.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool/standin/base/handle.h"
#include "pool/standin/base/process.h"

#define POLL_NS 50000

void node_set_add(struct node_set *set, CUgraphNode node)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->nodes[i] == node)
            return;
    if (set->count == set->capacity) {
        size_t capacity = set->capacity ? set->capacity * 2 : 4;
        CUgraphNode *nodes = engine_alloc(capacity * sizeof(CUgraphNode));
        if (set->count)
            memcpy(nodes, set->nodes, set->count * sizeof(CUgraphNode));
        free(set->nodes);
        set->nodes = nodes;
        set->capacity = capacity;
    }
    set->nodes[set->count++] = node;
}

void node_set_add_all(struct node_set *set, const struct node_set *more)
{
    for (size_t i = 0; i < more->count; i++)
        node_set_add(set, more->nodes[i]);
}

void node_set_clear(struct node_set *set)
{
    set->count = 0;
}

void node_set_free(struct node_set *set)
{
    free(set->nodes);
    *set = (struct node_set){0};
}

struct CUgraph_st *graph_make(void)
{
    struct CUgraph_st *graph = calloc(1, sizeof(*graph));
    if (!graph)
        return NULL;
    graph->handle = handle_make(HANDLE_GRAPH, graph);
    if (graph->handle)
        return graph;
    free(graph);
    return NULL;
}

static void node_free(struct CUgraphNode_st *node)
{
    handle_free(HANDLE_NODE, node->handle);
    if (node->work.drop)
        node->work.drop(&node->work);
    node_set_free(&node->after);
    free(node);
}

void graph_free(struct CUgraph_st *graph)
{
    for (size_t i = 0; i < graph->count; i++)
        node_free(graph->nodes[i]);
    handle_free(HANDLE_GRAPH, graph->handle);
    free(graph->nodes);
    free(graph);
}

static bool graph_make_room(struct CUgraph_st *graph)
{
    if (graph->count < graph->capacity)
        return true;
    size_t capacity = graph->capacity ? graph->capacity * 2 : 16;
    void *nodes = realloc(graph->nodes, capacity * sizeof(void *));
    if (!nodes)
        return false;
    graph->nodes = nodes;
    graph->capacity = capacity;
    return true;
}

struct CUgraphNode_st *graph_add(struct CUgraph_st *graph,
                                 const struct work *work,
                                 const struct node_set *after)
{
    struct CUgraphNode_st *node = calloc(1, sizeof(*node));
    if (!node)
        return NULL;
    if (graph_make_room(graph))
        node->handle = handle_make(HANDLE_NODE, node);
    if (!node->handle) {
        free(node);
        return NULL;
    }
    node->graph = graph;
    node->index = graph->count;
    node->work = *work;
    node_set_add_all(&node->after, after);
    graph->nodes[graph->count++] = node;
    return node;
}

struct CUgraphNode_st *graph_node(CUgraphNode handle)
{
    CUresult why;
    return handle_object(HANDLE_NODE, handle, &why);
}

struct graph_body *graph_freeze(const struct CUgraph_st *graph)
{
    struct graph_body *body =
        calloc(1, sizeof(*body) + graph->count * sizeof(body->works[0]));
    if (!body)
        return NULL;
    body->references = 1;
    body->count = graph->count;
    for (size_t i = 0; i < graph->count; i++) {
        body->works[i] = graph->nodes[i]->work;
        if (body->works[i].keep)
            body->works[i].keep(&body->works[i]);
    }
    return body;
}

void graph_body_unref(struct graph_body *body)
{
    if (--body->references != 0)
        return;
    for (size_t i = 0; i < body->count; i++)
        if (body->works[i].drop)
            body->works[i].drop(&body->works[i]);
    free(body);
}

/* A value awaited inside a graph holds up the worker that runs the graph. */
static CUresult poll_until(struct work *work)
{
    const struct timespec period = {.tv_nsec = POLL_NS};
    CUresult code = CUDA_SUCCESS;
    bool is_over = false;
    while (!is_over && !standin_is_dead()) {
        standin_lock();
        is_over = work->test(work, &code);
        standin_unlock();
        if (!is_over)
            nanosleep(&period, NULL);
    }
    return code;
}

static CUresult run_body(struct work *work)
{
    const struct graph_body *body = work->as.body;
    CUresult code = CUDA_SUCCESS;
    for (size_t i = 0; i < body->count && code == CUDA_SUCCESS; i++) {
        struct work one = body->works[i]; /* owned by the body */
        if (one.test)
            code = poll_until(&one);
        else if (one.run)
            code = one.run(&one);
    }
    return code;
}

static void keep_body(struct work *work)
{
    work->as.body->references++;
}

static void drop_body(struct work *work)
{
    graph_body_unref(work->as.body);
}

struct work graph_work(struct graph_body *body)
{
    body->references++;
    return (struct work){.run = run_body,
                         .keep = keep_body,
                         .drop = drop_body,
                         .node_type = CU_GRAPH_NODE_TYPE_GRAPH,
                         .may_block = true,
                         .as.body = body};
}
