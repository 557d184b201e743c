/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The entries about captures.
 */
#include "pool/standin/entries/engine_api.h"
#include "pool/standin/streams/engine_internal.h"
#include "pool/standin/work/capture.h"

static CUresult capture_entries_begin(bool is_per_thread, CUstream handle,
                                      CUstreamCaptureMode mode)
{
    CUresult why;
    struct CUstream_st *stream = stream_named(handle, is_per_thread, &why);
    return stream ? capture_begin(stream, mode) : why;
}

DEFINE_BOTH(cuStreamBeginCapture, _ptsz, (CUstream stream),
            capture_entries_begin, stream, CU_STREAM_CAPTURE_MODE_GLOBAL)
DEFINE_BOTH(cuStreamBeginCapture_v2, _ptsz,
            (CUstream stream, CUstreamCaptureMode mode), capture_entries_begin,
            stream, mode)

static CUresult capture_entries_end(bool is_per_thread, CUstream handle,
                                    CUgraph *out)
{
    CUresult why;
    struct CUstream_st *stream = stream_named(handle, is_per_thread, &why);
    if (!stream)
        return why;
    return out ? capture_end(stream, out) : CUDA_ERROR_INVALID_VALUE;
}

DEFINE_BOTH(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph *out),
            capture_entries_end, stream, out)

/* What the calls below may be asked to write; NULL where they are not. */
struct info {
    CUstreamCaptureStatus *status; /* always asked for */
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **nodes;
    const CUgraphEdgeData **edges;
    size_t *node_count;
};

/* Without an active capture only the status is written. */
static void write_info(const struct CUstream_st *stream,
                       const struct info *info)
{
    const struct capture *capture = stream->capture;
    *info->status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (capture)
        *info->status = capture->is_invalid
                            ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                            : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (*info->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return;
    if (info->id)
        *info->id = capture->id;
    if (info->graph)
        *info->graph = capture->graph;
    if (info->nodes)
        *info->nodes = stream->capture_tail.nodes;
    if (info->edges)
        *info->edges = NULL; /* all edges are plain ones */
    if (info->node_count)
        *info->node_count = stream->capture_tail.count;
}

static CUresult get_info(bool is_per_thread, CUstream handle, struct info info)
{
    CUresult why;
    const struct CUstream_st *stream =
        stream_named(handle, is_per_thread, &why);
    if (!stream)
        return why;
    if (!info.status)
        return CUDA_ERROR_INVALID_VALUE;
    why = capture_check_info(stream);
    if (why == CUDA_SUCCESS)
        write_info(stream, &info);
    return why;
}

static struct info capture_entries_info_of(CUstreamCaptureStatus *status,
                                           cuuint64_t *id)
{
    return (struct info){.status = status, .id = id};
}

static struct info info_all(struct info info, CUgraph *graph,
                            const CUgraphNode **nodes,
                            const CUgraphEdgeData **edges, size_t *node_count)
{
    info.graph = graph;
    info.nodes = nodes;
    info.edges = edges;
    info.node_count = node_count;
    return info;
}

DEFINE_BOTH(cuStreamIsCapturing, _ptsz,
            (CUstream stream, CUstreamCaptureStatus *out), get_info, stream,
            capture_entries_info_of(out, NULL))
DEFINE_BOTH(cuStreamGetCaptureInfo, _ptsz,
            (CUstream stream, CUstreamCaptureStatus *out, cuuint64_t *out_id),
            get_info, stream, capture_entries_info_of(out, out_id))
DEFINE_BOTH(cuStreamGetCaptureInfo_v2, _ptsz,
            (CUstream stream, CUstreamCaptureStatus *out, cuuint64_t *out_id,
             CUgraph *out_graph, const CUgraphNode **out_nodes,
             size_t *out_count),
            get_info, stream,
            info_all(capture_entries_info_of(out, out_id), out_graph, out_nodes,
                     NULL, out_count))
DEFINE_BOTH(cuStreamGetCaptureInfo_v3, _ptsz,
            (CUstream stream, CUstreamCaptureStatus *out, cuuint64_t *out_id,
             CUgraph *out_graph, const CUgraphNode **out_nodes,
             const CUgraphEdgeData **out_edges, size_t *out_count),
            get_info, stream,
            info_all(capture_entries_info_of(out, out_id), out_graph, out_nodes,
                     out_edges, out_count))

STANDIN_EXPORT CUresult
cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER(cuThreadExchangeStreamCaptureMode, NEEDS_INIT);
    /* A mode that there is not is taken, as by the driver; it allows what
     * THREAD_LOCAL does. */
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    struct thread_state *self = thread_state();
    CUstreamCaptureMode before = self->capture_mode;
    self->capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
