/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Stream-ordered allocation. An allocation takes memory that is free when the
 * call is made, so it need not be queued; a free is queued, and the memory is
 * nobody else's before its turn has come.
 */
#include "pool/standin/entries/entry.h"
#include "pool/standin/entries/memory_api.h"
#include "pool/standin/memory/pool.h"
#include "pool/standin/memory/release.h"
#include "pool/standin/streams/engine.h"

static CUresult async_memory_take(struct CUmemPoolHandle_st *pool,
                                  struct CUctx_st *context, size_t size_bytes,
                                  CUdeviceptr *out)
{
    uint64_t address;
    CUresult code = pool_take(pool, size_bytes, &address);
    if (code != CUDA_SUCCESS)
        return code;
    struct address_range range = {
        .base = address,
        .size_bytes = size_bytes,
        .kind = ADDRESS_POOL,
        .end = pool_give,
        .shadow = device_memory_shadow(pool->device, address),
        .device = pool->device,
        .context = context,
        .pool = pool,
    };
    if (!address_add(&address_live, &range)) {
        pool_give(&range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = address;
    return CUDA_SUCCESS;
}

/* The current context, once `handle` is a stream of it. */
static struct CUctx_st *check_stream(CUstream handle, bool is_per_thread,
                                     struct CUstream_st **out, CUresult *why)
{
    *why = CUDA_ERROR_NOT_SUPPORTED;
    if (!pools_are_supported())
        return NULL;
    struct CUctx_st *context = context_current(why);
    if (!context)
        return NULL;
    *out = engine_stream(context, handle, is_per_thread, why);
    return *out ? context : NULL;
}

/* `is_any_pool`: from the device's current pool. */
static CUresult async_memory_allocate(CUdeviceptr *out, size_t size_bytes,
                                      CUmemoryPool handle, bool is_any_pool,
                                      CUstream stream, bool is_per_thread)
{
    CUresult code;
    struct CUstream_st *found;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    struct CUctx_st *context =
        check_stream(stream, is_per_thread, &found, &code);
    if (!context)
        return standin_leave(code);
    if (size_bytes == 0) {
        *out = 0;
        return standin_leave(CUDA_SUCCESS);
    }
    struct CUmemPoolHandle_st *pool =
        is_any_pool ? pool_current(context->device) : pool_find(handle);
    if (!pool)
        return standin_leave(is_any_pool ? CUDA_ERROR_OUT_OF_MEMORY
                                         : CUDA_ERROR_INVALID_VALUE);
    return standin_leave(async_memory_take(pool, context, size_bytes, out));
}

#define ALLOC_ASYNC(symbol, is_per_thread)                                     \
    CUresult symbol(CUdeviceptr *out, size_t size_bytes, CUstream stream)      \
    {                                                                          \
        ENTER(symbol, NEEDS_INIT);                                             \
        return async_memory_allocate(out, size_bytes, NULL, true, stream,      \
                                     is_per_thread);                           \
    }
ALLOC_ASYNC(cuMemAllocAsync, false)
ALLOC_ASYNC(cuMemAllocAsync_ptsz, true)

#define ALLOC_FROM_POOL(symbol, is_per_thread)                                 \
    CUresult symbol(CUdeviceptr *out, size_t size_bytes, CUmemoryPool pool,    \
                    CUstream stream)                                           \
    {                                                                          \
        ENTER(symbol, NEEDS_INIT);                                             \
        return async_memory_allocate(out, size_bytes, pool, false, stream,     \
                                     is_per_thread);                           \
    }
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync, false)
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, true)

/* What cuMemFreeAsync takes: cuMemAlloc's memory too. */
static struct address_range *async_memory_find_freeable(CUdeviceptr address)
{
    struct address_range *range = address_find(&address_live, address);
    if (!range || range->base != address ||
        (range->kind != ADDRESS_POOL && range->kind != ADDRESS_DEVICE))
        return NULL;
    return range;
}

static bool is_managed(CUdeviceptr address)
{
    const struct address_range *range = address_find(&address_live, address);
    return range && range->kind == ADDRESS_MANAGED;
}

/* On a worker, when the free's turn has come. Its context may have ended in
 * the meantime, and the memory with it. */
static void free_now(void *argument)
{
    standin_lock();
    struct address_range *range =
        async_memory_find_freeable((uintptr_t)argument);
    if (range && range->is_freeing)
        range_release(range);
    standin_unlock();
}

static CUresult free_async(CUdeviceptr address, CUstream stream,
                           bool is_per_thread)
{
    CUresult code;
    struct CUstream_st *found;
    standin_lock();
    engine_await_room(stream, is_per_thread);
    if (!check_stream(stream, is_per_thread, &found, &code) || address == 0)
        return standin_leave(code);
    struct address_range *range = async_memory_find_freeable(address);
    if (is_managed(address))
        return standin_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (!range || range->is_freeing)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    range->is_freeing = true;
    code = engine_submit_action(found, free_now, (void *)(uintptr_t)address);
    if (code != CUDA_SUCCESS)
        range->is_freeing = false;
    return standin_leave(code);
}

#define FREE_ASYNC(symbol, is_per_thread)                                      \
    CUresult symbol(CUdeviceptr address, CUstream stream)                      \
    {                                                                          \
        ENTER(symbol, NEEDS_INIT);                                             \
        return free_async(address, stream, is_per_thread);                     \
    }
FREE_ASYNC(cuMemFreeAsync, false)
FREE_ASYNC(cuMemFreeAsync_ptsz, true)
