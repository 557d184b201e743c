/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Contexts and the stack of current ones that each thread has.
 */
#include "pool/standin/context/context.h"

#include <stdlib.h>

#include "pool/standin/entries/core_api.h"
#include "pool/standin/memory/memory.h"
#include "pool/standin/streams/engine.h"

#define API_VERSION_CURRENT 3020

static uint64_t next_context_id = 1;

CUresult context_make(struct device *device, unsigned flags,
                      struct CUctx_st **out)
{
    struct CUctx_st *context = calloc(1, sizeof(*context));
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->device = device;
    context->api_version = API_VERSION_CURRENT;
    CUresult code = context_revive(context, flags);
    if (code != CUDA_SUCCESS) {
        free(context);
        return code;
    }
    context_add(context);
    *out = context;
    return CUDA_SUCCESS;
}

CUresult context_revive(struct CUctx_st *context, unsigned flags)
{
    CUresult code = engine_context_init(context);
    if (code != CUDA_SUCCESS)
        return code;
    context->flags = flags;
    context->id = next_context_id++;
    context->peer_mask = 0;
    context->is_alive = true;
    return CUDA_SUCCESS;
}

void context_kill(struct CUctx_st *context)
{
    context->is_alive = false;
    context->is_dying = true;
    engine_context_fini(context);
    memory_context_fini(context);
    context->is_dying = false;
    standin_notify();
}

bool context_flags_are_good(unsigned flags)
{
    unsigned schedule = flags & 7U;
    return (flags & ~(unsigned)CU_CTX_FLAGS_MASK) == 0 && schedule != 3U &&
           schedule <= CU_CTX_SCHED_BLOCKING_SYNC;
}

static CUresult context_create(CUcontext *out, unsigned flags, CUdevice id)
{
    if (!out || !context_flags_are_good(flags))
        return CUDA_ERROR_INVALID_VALUE;
    struct device *device = device_at(id);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    standin_lock();
    if (context_stack_is_full())
        return standin_leave(CUDA_ERROR_OUT_OF_MEMORY);
    struct CUctx_st *context;
    CUresult code = context_make(device, flags, &context);
    if (code == CUDA_SUCCESS) {
        context_push(context);
        *out = context;
    }
    return standin_leave(code);
}

STANDIN_EXPORT CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags,
                                       CUdevice id)
{
    ENTER(cuCtxCreate_v2, NEEDS_INIT);
    return context_create(out, flags, id);
}

STANDIN_EXPORT CUresult cuCtxCreate_v3(CUcontext *out,
                                       CUexecAffinityParam *affinity, int count,
                                       unsigned flags, CUdevice id)
{
    ENTER(cuCtxCreate_v3, NEEDS_INIT);
    if (affinity || count)
        return CUDA_ERROR_NOT_SUPPORTED;
    return context_create(out, flags, id);
}

STANDIN_EXPORT CUresult cuCtxCreate_v4(CUcontext *out,
                                       CUctxCreateParams *parameters,
                                       unsigned flags, CUdevice id)
{
    ENTER(cuCtxCreate_v4, NEEDS_INIT);
    if (parameters && (parameters->execAffinityParams || parameters->cigParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    return context_create(out, flags, id);
}

STANDIN_EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
    ENTER(cuCtxDestroy_v2, NEEDS_INIT);
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    CUresult code = context_check(context);
    if (code == CUDA_SUCCESS && context->is_primary)
        code = CUDA_ERROR_INVALID_CONTEXT;
    if (code != CUDA_SUCCESS)
        return standin_leave(code);
    context_kill(context);
    if (context_top() == context)
        context_pop();
    return standin_leave(CUDA_SUCCESS);
}

STANDIN_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER(cuCtxPushCurrent_v2, NEEDS_INIT);
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    CUresult code = context_check(context);
    if (code == CUDA_SUCCESS && !context_push(context))
        code = CUDA_ERROR_OUT_OF_MEMORY;
    return standin_leave(code);
}

STANDIN_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    ENTER(cuCtxPopCurrent_v2, NEEDS_INIT);
    struct CUctx_st *context = context_pop();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (out)
        *out = context;
    return CUDA_SUCCESS;
}

/* Replaces the top of the stack; NULL pops it. */
STANDIN_EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER(cuCtxSetCurrent, NEEDS_INIT);
    standin_lock();
    CUresult code = context ? context_check(context) : CUDA_SUCCESS;
    if (code != CUDA_SUCCESS)
        return standin_leave(code);
    context_pop();
    if (context)
        context_push(context);
    return standin_leave(CUDA_SUCCESS);
}

STANDIN_EXPORT CUresult cuCtxGetCurrent(CUcontext *out)
{
    ENTER(cuCtxGetCurrent, NEEDS_INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = context_top();
    return CUDA_SUCCESS;
}
