/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the program that a stream calls. They run on a worker; while
 * one runs, its thread may not call the driver.
 */
#include "pool/standin/entries/engine_api.h"
#include "pool/standin/streams/engine_internal.h"
#include "pool/standin/work/capture.h"

static CUresult host_func_run(struct work *work)
{
    const struct host_call *call = &work->as.host;
    struct thread_state *self = thread_state();
    self->is_in_callback = true;
    if (call->function)
        call->function(call->user_data);
    else
        call->callback(call->stream, CUDA_SUCCESS, call->user_data);
    self->is_in_callback = false;
    return CUDA_SUCCESS;
}

static struct work work_of(struct host_call call)
{
    return (struct work){.run = host_func_run,
                         .node_type = CU_GRAPH_NODE_TYPE_HOST,
                         .may_block = true,
                         .as.host = call};
}

static CUresult launch_function(bool is_per_thread, CUstream handle,
                                CUhostFn function, void *user_data)
{
    CUresult why;
    const struct work work = work_of(
        (struct host_call){.function = function, .user_data = user_data});
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUstream_st *stream = launch_begin(handle, is_per_thread, &why);
    return stream ? launch(stream, &work, NULL) : why;
}

DEFINE_BOTH(cuLaunchHostFunc, _ptsz,
            (CUstream stream, CUhostFn function, void *user_data),
            launch_function, stream, function, user_data)

static CUresult add_callback(bool is_per_thread, CUstream handle,
                             CUstreamCallback callback, void *user_data,
                             unsigned flags)
{
    CUresult why;
    const struct work work = work_of((struct host_call){
        .callback = callback, .stream = handle, .user_data = user_data});
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUstream_st *stream = launch_begin(handle, is_per_thread, &why);
    if (!stream)
        return why;
    return stream->capture ? capture_refuse(stream)
                           : launch(stream, &work, NULL);
}

DEFINE_BOTH(cuStreamAddCallback, _ptsz,
            (CUstream stream, CUstreamCallback callback, void *user_data,
             unsigned flags),
            add_callback, stream, callback, user_data, flags)
