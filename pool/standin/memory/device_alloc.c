/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * cuMemAlloc and its family: device memory that a context owns.
 */
#include <stdatomic.h>

#include "pool/standin/entries/entry.h"
#include "pool/standin/entries/memory_api.h"
#include "pool/standin/memory/device_memory.h"
#include "pool/standin/memory/release.h"
#include "pool/standin/settings/fault.h"
#include "pool/standin/streams/engine.h"

#define PITCH_BYTES ((size_t)512)

/* An importer may look at any moment, from another process, without any order
 * to us: the word is all that it reads, so relaxed is enough. */
static void device_alloc_end(struct address_range *range)
{
    _Atomic(uint64_t) *word =
        device_memory_export_word(range->device, range->base);
    /* Only a written word has a page of its own; do not make one here. */
    if (range->is_exported)
        atomic_store_explicit(word, 0, memory_order_relaxed);
    device_memory_give(range->device, range->base, range->size_bytes);
}

static CUresult device_alloc_allocate(CUdeviceptr *out, size_t size_bytes)
{
    CUresult code;
    struct CUctx_st *context = engine_await_launchers(&code);
    uint64_t address = 0;
    if (!context)
        return code;
    code = device_memory_take(context->device, size_bytes, &address);
    if (code != CUDA_SUCCESS)
        return code;
    const struct address_range range = {
        .base = address,
        .size_bytes = size_bytes,
        .kind = ADDRESS_DEVICE,
        .end = device_alloc_end,
        .shadow = device_memory_shadow(context->device, address),
        .device = context->device,
        .context = context,
    };
    if (!address_add(&address_live, &range)) {
        device_memory_give(context->device, address, size_bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = address;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size_bytes)
{
    ENTER(cuMemAlloc_v2, NEEDS_INIT | BREAKS_CAPTURE);
    if (!out || size_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = 0; /* as the driver leaves it when it fails */
    standin_lock();
    return standin_leave(device_alloc_allocate(out, size_bytes));
}

static bool is_element_size(unsigned size_bytes)
{
    return size_bytes == 4 || size_bytes == 8 || size_bytes == 16;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *out_pitch,
                            size_t width_bytes, size_t height,
                            unsigned element_bytes)
{
    ENTER(cuMemAllocPitch_v2, NEEDS_INIT | BREAKS_CAPTURE);
    if (!out || !out_pitch || width_bytes == 0 || height == 0 ||
        !is_element_size(element_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (width_bytes > SIZE_MAX - PITCH_BYTES ||
        height > SIZE_MAX / round_up(width_bytes, PITCH_BYTES))
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t pitch = round_up(width_bytes, PITCH_BYTES);
    standin_lock();
    CUresult code = device_alloc_allocate(out, pitch * height);
    if (code == CUDA_SUCCESS)
        *out_pitch = pitch;
    return standin_leave(code);
}

/* What cuMemFree takes, by the address that its maker returned. */
static struct address_range *device_alloc_find_freeable(CUdeviceptr address)
{
    struct address_range *range = address_find(&address_live, address);
    if (!range || range->base != address || range->is_freeing)
        return NULL;
    bool is_freeable = range->kind == ADDRESS_DEVICE ||
                       range->kind == ADDRESS_POOL ||
                       range->kind == ADDRESS_MANAGED;
    return is_freeable ? range : NULL;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    ENTER(cuMemFree_v2, NEEDS_INIT | BREAKS_CAPTURE);
    if (address == 0)
        return CUDA_SUCCESS;
    standin_lock();
    struct address_range *range = device_alloc_find_freeable(address);
    if (!range)
        return standin_leave(context_unknown_address());
    return standin_leave(range_drain_and_release(range));
}

CUresult cuMemGetInfo_v2(size_t *out_free, size_t *out_total)
{
    ENTER(cuMemGetInfo_v2, NEEDS_INIT);
    CUresult code;
    standin_lock();
    const struct CUctx_st *context = context_current(&code);
    const struct device *device = context ? context->device : NULL;
    if (device && out_free)
        *out_free = device->memory_bytes - device->memory->used_bytes;
    if (device && out_total)
        *out_total = device->memory_bytes;
    if (device)
        fault_claim_memory(out_free, out_total);
    return standin_leave(code);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *out_base, size_t *out_size_bytes,
                                 CUdeviceptr address)
{
    ENTER(cuMemGetAddressRange_v2, NEEDS_INIT);
    CUresult code;
    standin_lock();
    const struct address_range *range = address_find(&address_live, address);
    if (!context_current(&code))
        return standin_leave(code);
    if (!range)
        return standin_leave(CUDA_ERROR_NOT_FOUND);
    if (out_base)
        *out_base = range->base;
    if (out_size_bytes)
        *out_size_bytes = range->size_bytes;
    return standin_leave(CUDA_SUCCESS);
}
