/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The entries about graphs that can be launched.
 */
#include <stdlib.h>

#include "pool/standin/base/handle.h"
#include "pool/standin/entries/engine_api.h"
#include "pool/standin/streams/engine_internal.h"
#include "pool/standin/work/graph.h"

#define FLAG_UPLOAD 2U
#define FLAG_DEVICE_LAUNCH 4U
#define FLAG_NODE_PRIORITY 8U
#define FLAGS_ALL                                                              \
    ((unsigned)CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | FLAG_UPLOAD | \
     FLAG_DEVICE_LAUNCH | FLAG_NODE_PRIORITY)

static struct CUgraphExec_st *exec_make(const struct CUgraph_st *graph)
{
    struct CUgraphExec_st *exec = calloc(1, sizeof(*exec));
    if (!exec)
        return NULL;
    exec->body = graph_freeze(graph);
    if (exec->body)
        exec->handle = handle_make(HANDLE_EXEC, exec);
    if (exec->handle)
        return exec;
    if (exec->body)
        graph_body_unref(exec->body);
    free(exec);
    return NULL;
}

static CUresult instantiate(CUgraphExec *out, CUgraph handle, cuuint64_t flags)
{
    CUresult why;
    const struct CUgraph_st *graph = handle_object(HANDLE_GRAPH, handle, &why);
    if (!out || !graph || (flags & ~(cuuint64_t)FLAGS_ALL))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (graph->is_capturing)
        return CUDA_ERROR_ILLEGAL_STATE;
    const struct CUgraphExec_st *exec = exec_make(graph);
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = exec->handle;
    return CUDA_SUCCESS;
}

static CUresult instantiate_logged(CUgraphExec *out, CUgraph graph,
                                   CUgraphNode *out_node, char *log,
                                   size_t log_bytes)
{
    if (out_node)
        *out_node = NULL;
    if (log && log_bytes)
        *log = '\0';
    return instantiate(out, graph, 0);
}

DEFINE_VERSIONS(cuGraphInstantiate,
                (CUgraphExec * out, CUgraph graph, CUgraphNode *out_node,
                 char *log, size_t log_bytes),
                instantiate_logged, out, graph, out_node, log, log_bytes)

STANDIN_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out,
                                                    CUgraph graph,
                                                    unsigned long long flags)
{
    ENTER(cuGraphInstantiateWithFlags, NEEDS_INIT);
    standin_lock();
    return standin_leave(instantiate(out, graph, flags));
}

static CUresult instantiate_with(bool is_per_thread, CUgraphExec *out,
                                 CUgraph graph,
                                 CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    CUresult code = CUDA_ERROR_INVALID_VALUE;
    if (!parameters)
        return code;
    parameters->hErrNode_out = NULL;
    parameters->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
    if (parameters->flags & FLAG_UPLOAD &&
        !stream_named(parameters->hUploadStream, is_per_thread, &code))
        return code;
    code = instantiate(out, graph, parameters->flags);
    if (code == CUDA_SUCCESS)
        parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return code;
}

DEFINE_BOTH(cuGraphInstantiateWithParams, _ptsz,
            (CUgraphExec * out, CUgraph graph,
             CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
            instantiate_with, out, graph, parameters)

/* The graph behind `handle` and the stream it is to run on. */
static struct CUgraphExec_st *
graph_exec_begin(bool is_per_thread, CUgraphExec handle, CUstream stream_handle,
                 struct CUstream_st **out_stream, CUresult *why)
{
    *out_stream = launch_begin(stream_handle, is_per_thread, why);
    if (!*out_stream)
        return NULL;
    struct CUgraphExec_st *exec = handle_object(HANDLE_EXEC, handle, why);
    if (!exec)
        *why = CUDA_ERROR_INVALID_VALUE;
    return exec;
}

static CUresult launch_graph(bool is_per_thread, CUgraphExec handle,
                             CUstream stream_handle)
{
    CUresult why;
    struct CUstream_st *stream;
    struct CUgraphExec_st *exec =
        graph_exec_begin(is_per_thread, handle, stream_handle, &stream, &why);
    if (!exec)
        return why;
    const struct work work = graph_work(exec->body);
    if (stream->capture)
        return launch(stream, &work, NULL);
    struct op *op = enqueue(stream, &work, exec->last);
    op_unref(exec->last);
    exec->last = op;
    return CUDA_SUCCESS;
}

DEFINE_BOTH(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream),
            launch_graph, exec, stream)

/* There is nowhere to upload to; what is checked is checked. */
static CUresult upload(bool is_per_thread, CUgraphExec handle,
                       CUstream stream_handle)
{
    CUresult why;
    struct CUstream_st *stream;
    graph_exec_begin(is_per_thread, handle, stream_handle, &stream, &why);
    return why;
}

DEFINE_BOTH(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream stream), upload,
            exec, stream)

STANDIN_EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle)
{
    ENTER(cuGraphExecDestroy, NEEDS_INIT);
    CUresult why;
    standin_lock();
    struct CUgraphExec_st *exec = handle_take(HANDLE_EXEC, handle, &why);
    if (!exec)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    graph_body_unref(exec->body);
    op_unref(exec->last);
    free(exec);
    return standin_leave(CUDA_SUCCESS);
}
