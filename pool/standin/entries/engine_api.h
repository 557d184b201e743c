/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Prototypes of the entries that streams, events, copies, captures and graphs
 * define, and how an entry and its per-thread twin are defined together.
 */
#ifndef MOIETY_POOL_STANDIN_ENTRIES_ENGINE_API_H_
#define MOIETY_POOL_STANDIN_ENTRIES_ENGINE_API_H_

#include "pool/driver/cuda_abi.h"
#include "pool/standin/entries/entry.h"

/* Defines `symbol` and `symbol##suffix`, to which stream 0 is the legacy and
 * the calling thread's own stream: body(is_per_thread, ...), lock held. */
#define DEFINE_BOTH(symbol, suffix, parameters, body, ...)                     \
    STANDIN_EXPORT CUresult symbol parameters                                  \
    {                                                                          \
        ENTER(symbol, NEEDS_INIT);                                             \
        standin_lock();                                                        \
        return standin_leave(body(false, __VA_ARGS__));                        \
    }                                                                          \
    STANDIN_EXPORT CUresult symbol##suffix parameters                          \
    {                                                                          \
        ENTER(symbol##suffix, NEEDS_INIT);                                     \
        standin_lock();                                                        \
        return standin_leave(body(true, __VA_ARGS__));                         \
    }

/* streams/stream_entries.c */
STANDIN_EXPORT CUresult cuStreamCreate(CUstream *, unsigned);
STANDIN_EXPORT CUresult cuStreamCreateWithPriority(CUstream *, unsigned, int);
typedef CUresult standin_stream_fn(CUstream);
STANDIN_EXPORT standin_stream_fn cuStreamDestroy, cuStreamDestroy_v2;
STANDIN_EXPORT standin_stream_fn cuStreamQuery, cuStreamQuery_ptsz;
STANDIN_EXPORT standin_stream_fn cuStreamSynchronize, cuStreamSynchronize_ptsz;
typedef CUresult standin_stream_ctx_fn(CUstream, CUcontext *);
STANDIN_EXPORT standin_stream_ctx_fn cuStreamGetCtx, cuStreamGetCtx_ptsz;
typedef CUresult standin_stream_ctx_v2_fn(CUstream, CUcontext *, CUgreenCtx *);
STANDIN_EXPORT standin_stream_ctx_v2_fn cuStreamGetCtx_v2;
STANDIN_EXPORT standin_stream_ctx_v2_fn cuStreamGetCtx_v2_ptsz;
typedef CUresult standin_stream_flags_fn(CUstream, unsigned *);
STANDIN_EXPORT standin_stream_flags_fn cuStreamGetFlags, cuStreamGetFlags_ptsz;
typedef CUresult standin_stream_id_fn(CUstream, unsigned long long *);
STANDIN_EXPORT standin_stream_id_fn cuStreamGetId, cuStreamGetId_ptsz;
typedef CUresult standin_stream_int_fn(CUstream, int *);
STANDIN_EXPORT standin_stream_int_fn cuStreamGetPriority;
STANDIN_EXPORT standin_stream_int_fn cuStreamGetPriority_ptsz;
STANDIN_EXPORT standin_stream_int_fn cuStreamGetDevice, cuStreamGetDevice_ptsz;

/* streams/event.c, streams/event_order.c */
STANDIN_EXPORT CUresult cuEventCreate(CUevent *, unsigned);
typedef CUresult standin_event_fn(CUevent);
STANDIN_EXPORT standin_event_fn cuEventDestroy, cuEventDestroy_v2;
STANDIN_EXPORT standin_event_fn cuEventQuery, cuEventSynchronize;
typedef CUresult standin_elapsed_fn(float *, CUevent, CUevent);
STANDIN_EXPORT standin_elapsed_fn cuEventElapsedTime, cuEventElapsedTime_v2;
typedef CUresult standin_record_fn(CUevent, CUstream);
STANDIN_EXPORT standin_record_fn cuEventRecord, cuEventRecord_ptsz;
typedef CUresult standin_record_flags_fn(CUevent, CUstream, unsigned);
STANDIN_EXPORT standin_record_flags_fn cuEventRecordWithFlags;
STANDIN_EXPORT standin_record_flags_fn cuEventRecordWithFlags_ptsz;
typedef CUresult standin_wait_event_fn(CUstream, CUevent, unsigned);
STANDIN_EXPORT standin_wait_event_fn cuStreamWaitEvent, cuStreamWaitEvent_ptsz;
STANDIN_EXPORT CUresult cuCtxRecordEvent(CUcontext, CUevent);
STANDIN_EXPORT CUresult cuCtxWaitEvent(CUcontext, CUevent);

/* copies/entries.c */
typedef CUresult standin_copy_fn(CUdeviceptr, CUdeviceptr, size_t);
STANDIN_EXPORT standin_copy_fn cuMemcpy, cuMemcpy_ptds;
STANDIN_EXPORT standin_copy_fn cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds;
typedef CUresult standin_copy_in_fn(CUdeviceptr, const void *, size_t);
STANDIN_EXPORT standin_copy_in_fn cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds;
typedef CUresult standin_copy_out_fn(void *, CUdeviceptr, size_t);
STANDIN_EXPORT standin_copy_out_fn cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds;
typedef CUresult standin_copy_async_fn(CUdeviceptr, CUdeviceptr, size_t,
                                       CUstream);
STANDIN_EXPORT standin_copy_async_fn cuMemcpyAsync, cuMemcpyAsync_ptsz;
STANDIN_EXPORT standin_copy_async_fn cuMemcpyDtoDAsync_v2;
STANDIN_EXPORT standin_copy_async_fn cuMemcpyDtoDAsync_v2_ptsz;
typedef CUresult standin_copy_in_async_fn(CUdeviceptr, const void *, size_t,
                                          CUstream);
STANDIN_EXPORT standin_copy_in_async_fn cuMemcpyHtoDAsync_v2;
STANDIN_EXPORT standin_copy_in_async_fn cuMemcpyHtoDAsync_v2_ptsz;
typedef CUresult standin_copy_out_async_fn(void *, CUdeviceptr, size_t,
                                           CUstream);
STANDIN_EXPORT standin_copy_out_async_fn cuMemcpyDtoHAsync_v2;
STANDIN_EXPORT standin_copy_out_async_fn cuMemcpyDtoHAsync_v2_ptsz;
typedef CUresult standin_copy_peer_fn(CUdeviceptr, CUcontext, CUdeviceptr,
                                      CUcontext, size_t);
STANDIN_EXPORT standin_copy_peer_fn cuMemcpyPeer, cuMemcpyPeer_ptds;
typedef CUresult standin_copy_peer_async_fn(CUdeviceptr, CUcontext, CUdeviceptr,
                                            CUcontext, size_t, CUstream);
STANDIN_EXPORT standin_copy_peer_async_fn cuMemcpyPeerAsync;
STANDIN_EXPORT standin_copy_peer_async_fn cuMemcpyPeerAsync_ptsz;

/* copies/planes.c */
typedef CUresult standin_copy_2d_fn(const CUDA_MEMCPY2D *);
STANDIN_EXPORT standin_copy_2d_fn cuMemcpy2D_v2, cuMemcpy2D_v2_ptds;
STANDIN_EXPORT standin_copy_2d_fn cuMemcpy2DUnaligned_v2;
STANDIN_EXPORT standin_copy_2d_fn cuMemcpy2DUnaligned_v2_ptds;
typedef CUresult standin_copy_2d_async_fn(const CUDA_MEMCPY2D *, CUstream);
STANDIN_EXPORT standin_copy_2d_async_fn cuMemcpy2DAsync_v2;
STANDIN_EXPORT standin_copy_2d_async_fn cuMemcpy2DAsync_v2_ptsz;

/* copies/memset.c */
#define DECLARE_FILLS(bits, type)                                              \
    typedef CUresult standin_fill##bits##_fn(CUdeviceptr, type, size_t);       \
    typedef CUresult standin_fill##bits##_async_fn(CUdeviceptr, type, size_t,  \
                                                   CUstream);                  \
    typedef CUresult standin_fill2d##bits##_fn(CUdeviceptr, size_t, type,      \
                                               size_t, size_t);                \
    typedef CUresult standin_fill2d##bits##_async_fn(                          \
        CUdeviceptr, size_t, type, size_t, size_t, CUstream);                  \
    STANDIN_EXPORT standin_fill##bits##_fn cuMemsetD##bits##_v2,               \
        cuMemsetD##bits##_v2_ptds;                                             \
    STANDIN_EXPORT standin_fill##bits##_async_fn cuMemsetD##bits##Async,       \
        cuMemsetD##bits##Async_ptsz;                                           \
    STANDIN_EXPORT standin_fill2d##bits##_fn cuMemsetD2D##bits##_v2,           \
        cuMemsetD2D##bits##_v2_ptds;                                           \
    STANDIN_EXPORT standin_fill2d##bits##_async_fn cuMemsetD2D##bits##Async,   \
        cuMemsetD2D##bits##Async_ptsz
DECLARE_FILLS(8, unsigned char);
DECLARE_FILLS(16, unsigned short);
DECLARE_FILLS(32, unsigned);

/* copies/value.c */
typedef CUresult standin_value32_fn(CUstream, CUdeviceptr, cuuint32_t,
                                    unsigned);
typedef CUresult standin_value64_fn(CUstream, CUdeviceptr, cuuint64_t,
                                    unsigned);
#define DECLARE_VALUES(name, bits)                                             \
    STANDIN_EXPORT standin_value##bits##_fn name##bits, name##bits##_ptsz,     \
        name##bits##_v2, name##bits##_v2_ptsz
DECLARE_VALUES(cuStreamWaitValue, 32);
DECLARE_VALUES(cuStreamWaitValue, 64);
DECLARE_VALUES(cuStreamWriteValue, 32);
DECLARE_VALUES(cuStreamWriteValue, 64);

/* streams/host_func.c */
typedef CUresult standin_host_fn(CUstream, CUhostFn, void *);
STANDIN_EXPORT standin_host_fn cuLaunchHostFunc, cuLaunchHostFunc_ptsz;
typedef CUresult standin_callback_fn(CUstream, CUstreamCallback, void *,
                                     unsigned);
STANDIN_EXPORT standin_callback_fn cuStreamAddCallback;
STANDIN_EXPORT standin_callback_fn cuStreamAddCallback_ptsz;

/* graphs/capture_entries.c */
STANDIN_EXPORT standin_stream_fn cuStreamBeginCapture;
STANDIN_EXPORT standin_stream_fn cuStreamBeginCapture_ptsz;
typedef CUresult standin_begin_fn(CUstream, CUstreamCaptureMode);
STANDIN_EXPORT standin_begin_fn cuStreamBeginCapture_v2;
STANDIN_EXPORT standin_begin_fn cuStreamBeginCapture_v2_ptsz;
typedef CUresult standin_end_fn(CUstream, CUgraph *);
STANDIN_EXPORT standin_end_fn cuStreamEndCapture, cuStreamEndCapture_ptsz;
typedef CUresult standin_is_capturing_fn(CUstream, CUstreamCaptureStatus *);
STANDIN_EXPORT standin_is_capturing_fn cuStreamIsCapturing;
STANDIN_EXPORT standin_is_capturing_fn cuStreamIsCapturing_ptsz;
typedef CUresult standin_info_fn(CUstream, CUstreamCaptureStatus *,
                                 cuuint64_t *);
STANDIN_EXPORT standin_info_fn cuStreamGetCaptureInfo;
STANDIN_EXPORT standin_info_fn cuStreamGetCaptureInfo_ptsz;
typedef CUresult standin_info_v2_fn(CUstream, CUstreamCaptureStatus *,
                                    cuuint64_t *, CUgraph *,
                                    const CUgraphNode **, size_t *);
STANDIN_EXPORT standin_info_v2_fn cuStreamGetCaptureInfo_v2;
STANDIN_EXPORT standin_info_v2_fn cuStreamGetCaptureInfo_v2_ptsz;
typedef CUresult standin_info_v3_fn(CUstream, CUstreamCaptureStatus *,
                                    cuuint64_t *, CUgraph *,
                                    const CUgraphNode **,
                                    const CUgraphEdgeData **, size_t *);
STANDIN_EXPORT standin_info_v3_fn cuStreamGetCaptureInfo_v3;
STANDIN_EXPORT standin_info_v3_fn cuStreamGetCaptureInfo_v3_ptsz;
STANDIN_EXPORT CUresult
cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *);

/* graphs/graph_entries.c */
STANDIN_EXPORT CUresult cuGraphCreate(CUgraph *, unsigned);
STANDIN_EXPORT CUresult cuGraphDestroy(CUgraph);
STANDIN_EXPORT CUresult cuGraphClone(CUgraph *, CUgraph);
STANDIN_EXPORT CUresult cuGraphGetNodes(CUgraph, CUgraphNode *, size_t *);
STANDIN_EXPORT CUresult cuGraphGetRootNodes(CUgraph, CUgraphNode *, size_t *);
STANDIN_EXPORT CUresult cuGraphNodeGetType(CUgraphNode, CUgraphNodeType *);

/* graphs/graph_exec.c */
typedef CUresult standin_instantiate_fn(CUgraphExec *, CUgraph, CUgraphNode *,
                                        char *, size_t);
STANDIN_EXPORT standin_instantiate_fn cuGraphInstantiate;
STANDIN_EXPORT standin_instantiate_fn cuGraphInstantiate_v2;
STANDIN_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph,
                                                    unsigned long long);
typedef CUresult standin_instantiate_params_fn(CUgraphExec *, CUgraph,
                                               CUDA_GRAPH_INSTANTIATE_PARAMS *);
STANDIN_EXPORT standin_instantiate_params_fn cuGraphInstantiateWithParams;
STANDIN_EXPORT standin_instantiate_params_fn cuGraphInstantiateWithParams_ptsz;
typedef CUresult standin_graph_launch_fn(CUgraphExec, CUstream);
STANDIN_EXPORT standin_graph_launch_fn cuGraphLaunch, cuGraphLaunch_ptsz;
STANDIN_EXPORT standin_graph_launch_fn cuGraphUpload, cuGraphUpload_ptsz;
STANDIN_EXPORT CUresult cuGraphExecDestroy(CUgraphExec);

#endif
