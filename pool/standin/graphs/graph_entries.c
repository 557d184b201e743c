/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The entries about graphs before they are launched.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/standin/base/handle.h"
#include "pool/standin/entries/engine_api.h"
#include "pool/standin/work/graph.h"

/* A graph that is no longer, or not a graph at all, is an invalid value. */
static struct CUgraph_st *graph_entries_find(CUgraph handle)
{
    CUresult why;
    return handle_object(HANDLE_GRAPH, handle, &why);
}

STANDIN_EXPORT CUresult cuGraphCreate(CUgraph *out, unsigned flags)
{
    ENTER(cuGraphCreate, NEEDS_INIT);
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    struct CUgraph_st *graph = graph_make();
    if (graph)
        *out = graph->handle;
    return standin_leave(graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult graph_entries_destroy(CUgraph handle)
{
    struct CUgraph_st *graph = graph_entries_find(handle);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    if (graph->is_capturing)
        return CUDA_ERROR_ILLEGAL_STATE;
    graph_free(graph);
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    ENTER(cuGraphDestroy, NEEDS_INIT);
    standin_lock();
    return standin_leave(graph_entries_destroy(graph));
}

static bool copy_node(struct CUgraph_st *to, const struct CUgraphNode_st *node)
{
    struct node_set after = {0};
    struct work work = node->work;
    for (size_t i = 0; i < node->after.count; i++) {
        const struct CUgraphNode_st *old = graph_node(node->after.nodes[i]);
        node_set_add(&after, to->nodes[old->index]->handle);
    }
    const struct CUgraphNode_st *copy = graph_add(to, &work, &after);
    if (copy && work.keep)
        work.keep(&work);
    node_set_free(&after);
    return copy;
}

static CUresult clone(CUgraph *out, CUgraph handle)
{
    const struct CUgraph_st *from = graph_entries_find(handle);
    if (!out || !from)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUgraph_st *to = graph_make();
    bool is_good = to;
    for (size_t i = 0; is_good && i < from->count; i++)
        is_good = copy_node(to, from->nodes[i]);
    if (is_good)
        *out = to->handle;
    else if (to)
        graph_free(to);
    return is_good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

STANDIN_EXPORT CUresult cuGraphClone(CUgraph *out, CUgraph graph)
{
    ENTER(cuGraphClone, NEEDS_INIT);
    standin_lock();
    return standin_leave(clone(out, graph));
}

/* Fills `out`, if there is one, up to *count, zeroes what is left of it, and
 * says in *count how many there are, or were written. */
static CUresult graph_entries_list(CUgraph handle, CUgraphNode *out,
                                   size_t *count, bool only_roots)
{
    size_t found = 0;
    const struct CUgraph_st *graph = graph_entries_find(handle);
    if (!graph || !count)
        return CUDA_ERROR_INVALID_VALUE;
    if (out)
        memset(out, 0, *count * sizeof(CUgraphNode));
    for (size_t i = 0; i < graph->count; i++) {
        if (only_roots && graph->nodes[i]->after.count)
            continue;
        if (out && found == *count)
            break;
        if (out)
            out[found] = graph->nodes[i]->handle;
        found++;
    }
    *count = found;
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *out,
                                        size_t *count)
{
    ENTER(cuGraphGetNodes, NEEDS_INIT);
    standin_lock();
    return standin_leave(graph_entries_list(graph, out, count, false));
}

STANDIN_EXPORT CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *out,
                                            size_t *count)
{
    ENTER(cuGraphGetRootNodes, NEEDS_INIT);
    standin_lock();
    return standin_leave(graph_entries_list(graph, out, count, true));
}

STANDIN_EXPORT CUresult cuGraphNodeGetType(CUgraphNode handle,
                                           CUgraphNodeType *out)
{
    ENTER(cuGraphNodeGetType, NEEDS_INIT);
    standin_lock();
    const struct CUgraphNode_st *node = graph_node(handle);
    if (!node || !out)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    *out = node->work.node_type;
    return standin_leave(CUDA_SUCCESS);
}
