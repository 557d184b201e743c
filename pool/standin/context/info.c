/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a context says of itself, its limits, its peers, and waiting for it.
 */
#include "pool/standin/base/context.h"
#include "pool/standin/entries/core_api.h"
#include "pool/standin/streams/engine.h"

#define LIMIT_COUNT 3
#define PRIORITY_LEAST 0
#define PRIORITY_GREATEST (-5)

/* Kept per process: nothing here depends on them, programs read them back. */
static size_t limits[LIMIT_COUNT] = {1024, 1U << 20, 8U << 20};
static CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;

/* `handle`, or the current context for NULL; lock held. */
static struct CUctx_st *pick(CUcontext handle, CUresult *why)
{
    if (!handle)
        return context_current(why);
    *why = context_check(handle);
    return *why == CUDA_SUCCESS ? handle : NULL;
}

/* The device of a current context is told even after the context's death. */
STANDIN_EXPORT CUresult cuCtxGetDevice(CUdevice *out)
{
    ENTER(cuCtxGetDevice, NEEDS_INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    const struct CUctx_st *context = context_top();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = context->device->ordinal;
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *out, CUcontext handle)
{
    ENTER(cuCtxGetDevice_v2, NEEDS_INIT);
    if (!handle)
        return cuCtxGetDevice(out);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    CUresult code = context_check(handle);
    if (code == CUDA_SUCCESS)
        *out = handle->device->ordinal;
    return standin_leave(code);
}

/* An entry that tells `expression`, of the context that `picked` is. */
#define DEFINE_GETTER(symbol, parameters, picked, expression)                  \
    STANDIN_EXPORT CUresult symbol parameters                                  \
    {                                                                          \
        ENTER(symbol, NEEDS_INIT);                                             \
        if (!out)                                                              \
            return CUDA_ERROR_INVALID_VALUE;                                   \
        CUresult why;                                                          \
        standin_lock();                                                        \
        const struct CUctx_st *context = (picked);                             \
        if (context)                                                           \
            *out = (expression);                                               \
        return standin_leave(why);                                             \
    }
DEFINE_GETTER(cuCtxGetFlags, (unsigned *out), context_current(&why),
              context->flags)
DEFINE_GETTER(cuCtxGetId, (CUcontext handle, unsigned long long *out),
              pick(handle, &why), context->id)
DEFINE_GETTER(cuCtxGetApiVersion, (CUcontext handle, unsigned *out),
              pick(handle, &why), context->api_version)
DEFINE_GETTER(cuCtxGetCacheConfig, (CUfunc_cache * out), context_current(&why),
              cache_config)

STANDIN_EXPORT CUresult cuCtxSetFlags(unsigned flags)
{
    ENTER(cuCtxSetFlags, NEEDS_INIT);
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult why;
    standin_lock();
    struct CUctx_st *context = context_current(&why);
    if (context)
        context->flags = flags;
    return standin_leave(why);
}

STANDIN_EXPORT CUresult cuCtxGetStreamPriorityRange(int *out_least,
                                                    int *out_greatest)
{
    ENTER(cuCtxGetStreamPriorityRange, NEEDS_INIT);
    CUresult why;
    standin_lock();
    bool is_there = context_current(&why);
    if (is_there && out_least)
        *out_least = PRIORITY_LEAST;
    if (is_there && out_greatest)
        *out_greatest = PRIORITY_GREATEST;
    return standin_leave(why);
}

static CUresult info_synchronize(CUcontext handle)
{
    CUresult why;
    standin_lock();
    struct CUctx_st *context = pick(handle, &why);
    if (context)
        why = engine_synchronize(context);
    return standin_leave(why);
}

STANDIN_EXPORT CUresult cuCtxSynchronize(void)
{
    ENTER(cuCtxSynchronize, NEEDS_INIT);
    return info_synchronize(NULL);
}

STANDIN_EXPORT CUresult cuCtxSynchronize_v2(CUcontext handle)
{
    ENTER(cuCtxSynchronize_v2, NEEDS_INIT);
    return info_synchronize(handle);
}

STANDIN_EXPORT CUresult cuCtxGetLimit(size_t *out, CUlimit limit)
{
    ENTER(cuCtxGetLimit, NEEDS_INIT);
    if (!out || (unsigned)limit >= LIMIT_COUNT)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult why;
    standin_lock();
    if (context_current(&why))
        *out = limits[limit];
    return standin_leave(why);
}

STANDIN_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    ENTER(cuCtxSetLimit, NEEDS_INIT);
    if ((unsigned)limit >= LIMIT_COUNT)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    CUresult why;
    standin_lock();
    if (context_current(&why))
        limits[limit] = value;
    return standin_leave(why);
}

STANDIN_EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    ENTER(cuCtxSetCacheConfig, NEEDS_INIT);
    CUresult why;
    standin_lock();
    if (context_current(&why))
        cache_config = config;
    return standin_leave(why);
}

/* The current context; NULL and *why when there is none, or `peer` is none;
 * lock held. */
static struct CUctx_st *current_beside(CUcontext peer, CUresult *why)
{
    struct CUctx_st *context = context_current(why);
    if (!context)
        return NULL;
    *why = context_check(peer);
    return *why == CUDA_SUCCESS ? context : NULL;
}

STANDIN_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    ENTER(cuCtxEnablePeerAccess, NEEDS_INIT);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult why;
    standin_lock();
    struct CUctx_st *context = current_beside(peer, &why);
    if (!context)
        return standin_leave(why);
    uint64_t bit = (uint64_t)1 << peer->device->ordinal;
    if (peer->device == context->device)
        return standin_leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    if (context->peer_mask & bit)
        return standin_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    context->peer_mask |= bit;
    return standin_leave(CUDA_SUCCESS);
}

STANDIN_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    ENTER(cuCtxDisablePeerAccess, NEEDS_INIT);
    CUresult why;
    standin_lock();
    struct CUctx_st *context = current_beside(peer, &why);
    if (!context)
        return standin_leave(why);
    uint64_t bit = (uint64_t)1 << peer->device->ordinal;
    if (!(context->peer_mask & bit))
        return standin_leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    context->peer_mask &= ~bit;
    return standin_leave(CUDA_SUCCESS);
}

/* There is no profiler; programs bracket regions with these. */
STANDIN_EXPORT CUresult cuProfilerStart(void)
{
    ENTER(cuProfilerStart, NEEDS_INIT);
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuProfilerStop(void)
{
    ENTER(cuProfilerStop, NEEDS_INIT);
    return CUDA_SUCCESS;
}
