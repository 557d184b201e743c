/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Managed memory: ordinary memory of the process, which the stand-in reaches
 * where it is. Advice and prefetching change nothing, once they are valid.
 */
#include <sys/mman.h>

#include "pool/standin/entries/entry.h"
#include "pool/standin/entries/memory_api.h"
#include "pool/standin/memory/numa_node.h"
#include "pool/standin/memory/release.h"
#include "pool/standin/streams/engine.h"

static CUresult managed_allocate(CUdeviceptr *out, size_t size_bytes,
                                 unsigned flags)
{
    CUresult code;
    struct CUctx_st *context = context_current(&code);
    if (!context)
        return code;
    void *pointer = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pointer == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct address_range range = {
        .base = (uintptr_t)pointer,
        .size_bytes = size_bytes,
        .kind = ADDRESS_MANAGED,
        .end = range_unmap,
        .flags = flags,
        .shadow = pointer,
        .device = context->device,
        .context = context,
    };
    if (!address_add(&address_live, &range)) {
        munmap(pointer, size_bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = range.base;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t size_bytes, unsigned flags)
{
    ENTER(cuMemAllocManaged, NEEDS_INIT | BREAKS_CAPTURE);
    if (!out || size_bytes == 0 ||
        (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    return standin_leave(managed_allocate(out, size_bytes, flags));
}

static CUresult check_range(CUdeviceptr address, size_t size_bytes)
{
    CUresult code;
    if (!context_current(&code))
        return code;
    const struct address_range *range = address_find(&address_live, address);
    if (!range || range->kind != ADDRESS_MANAGED || size_bytes == 0 ||
        size_bytes > address_end(range) - address)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult managed_check_location(CUmemLocation location)
{
    switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return device_at(location.id) ? CUDA_SUCCESS
                                      : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return numa_node_exists(location.id) ? CUDA_SUCCESS
                                             : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* The older calls name a device, or the CPU. */
static CUmemLocation location_of(CUdevice device)
{
    if (device == CU_DEVICE_CPU)
        return (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0};
    return (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device};
}

static CUresult advise(CUdeviceptr address, size_t size_bytes,
                       CUmem_advise advice, CUmemLocation location)
{
    /* These say something about the memory alone. */
    bool needs_location = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                          advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                          advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
        advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    CUresult code = check_range(address, size_bytes);
    if (code == CUDA_SUCCESS && needs_location)
        code = managed_check_location(location);
    return standin_leave(code);
}

CUresult cuMemAdvise(CUdeviceptr address, size_t size_bytes,
                     CUmem_advise advice, CUdevice device)
{
    ENTER(cuMemAdvise, NEEDS_INIT);
    return advise(address, size_bytes, advice, location_of(device));
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size_bytes,
                        CUmem_advise advice, CUmemLocation location)
{
    ENTER(cuMemAdvise_v2, NEEDS_INIT);
    return advise(address, size_bytes, advice, location);
}

static CUresult prefetch(CUdeviceptr address, size_t size_bytes,
                         CUmemLocation location, CUstream stream,
                         bool is_per_thread)
{
    standin_lock();
    CUresult code = check_range(address, size_bytes);
    if (code == CUDA_SUCCESS)
        code = managed_check_location(location);
    if (code == CUDA_SUCCESS)
        (void)engine_stream(context_current(&code), stream, is_per_thread,
                            &code);
    return standin_leave(code);
}

#define PREFETCH(symbol, is_per_thread)                                        \
    CUresult symbol(CUdeviceptr address, size_t size_bytes, CUdevice device,   \
                    CUstream stream)                                           \
    {                                                                          \
        ENTER(symbol, NEEDS_INIT);                                             \
        return prefetch(address, size_bytes, location_of(device), stream,      \
                        is_per_thread);                                        \
    }
PREFETCH(cuMemPrefetchAsync, false)
PREFETCH(cuMemPrefetchAsync_ptsz, true)

#define PREFETCH_V2(symbol, is_per_thread)                                     \
    CUresult symbol(CUdeviceptr address, size_t size_bytes,                    \
                    CUmemLocation location, unsigned flags, CUstream stream)   \
    {                                                                          \
        ENTER(symbol, NEEDS_INIT);                                             \
        if (flags)                                                             \
            return CUDA_ERROR_INVALID_VALUE;                                   \
        return prefetch(address, size_bytes, location, stream, is_per_thread); \
    }
PREFETCH_V2(cuMemPrefetchAsync_v2, false)
PREFETCH_V2(cuMemPrefetchAsync_v2_ptsz, true)
