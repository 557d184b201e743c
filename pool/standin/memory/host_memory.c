/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pinned and registered host memory. It is ordinary memory of the process, at
 * the same address for CPU and device; pinning is a matter of book-keeping.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "pool/standin/entries/entry.h"
#include "pool/standin/entries/memory_api.h"
#include "pool/standin/memory/device_memory.h"
#include "pool/standin/memory/memory.h"
#include "pool/standin/memory/release.h"
#include "pool/standin/settings/cost.h"

#define ALLOC_FLAGS                                                            \
    (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |                    \
     CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                         \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |              \
     CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

static CUresult host_memory_note(struct CUctx_st *context,
                                 enum address_kind kind, void *pointer,
                                 size_t size_bytes, unsigned flags)
{
    const struct address_range range = {
        .base = (uintptr_t)pointer,
        .size_bytes = size_bytes,
        .kind = kind,
        .end = kind == ADDRESS_PINNED ? range_unmap : NULL,
        .flags = flags | CU_MEMHOSTALLOC_DEVICEMAP, /* as on any UVA device */
        .shadow = pointer,
        .context = context,
    };
    if (!address_add(&address_live, &range))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult host_memory_allocate(void **out, size_t size_bytes,
                                     unsigned flags)
{
    CUresult code;
    if (!out || (flags & ~(unsigned)ALLOC_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    struct CUctx_st *context = context_current(&code);
    if (!context)
        return code;
    if (size_bytes == 0) {
        *out = NULL;
        return CUDA_SUCCESS;
    }
    void *pointer = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pointer == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    code =
        host_memory_note(context, ADDRESS_PINNED, pointer, size_bytes, flags);
    if (code == CUDA_SUCCESS)
        *out = pointer;
    else
        munmap(pointer, size_bytes);
    return code;
}

/* Ends a call that pinned or released memory: releases the lock, and charges
 * what the driver would take for each MiB. */
static CUresult leave_charged(enum standin_entry entry, size_t size_bytes,
                              CUresult code)
{
    standin_unlock();
    if (code == CUDA_SUCCESS)
        cost_charge_pinned(entry, size_bytes);
    return code;
}

CUresult cuMemHostAlloc(void **out, size_t size_bytes, unsigned flags)
{
    ENTER(cuMemHostAlloc, NEEDS_INIT | BREAKS_CAPTURE);
    standin_lock();
    return leave_charged(ENTRY_cuMemHostAlloc, size_bytes,
                         host_memory_allocate(out, size_bytes, flags));
}

CUresult cuMemAllocHost_v2(void **out, size_t size_bytes)
{
    ENTER(cuMemAllocHost_v2, NEEDS_INIT | BREAKS_CAPTURE);
    standin_lock();
    return leave_charged(ENTRY_cuMemAllocHost_v2, size_bytes,
                         host_memory_allocate(out, size_bytes, 0));
}

/* What the driver calls host memory: from cuMemCreate too. */
static bool is_host(const struct address_range *range)
{
    return range->kind == ADDRESS_PINNED || range->kind == ADDRESS_REGISTERED ||
           (range->kind == ADDRESS_MAPPING && !range->device);
}

static struct address_range *find_host(const void *pointer)
{
    struct address_range *range =
        address_find(&address_live, (uintptr_t)pointer);
    return range && is_host(range) ? range : NULL;
}

static bool is_base_of(const struct address_range *range, const void *pointer,
                       enum address_kind kind)
{
    return range->kind == kind && range->base == (uintptr_t)pointer &&
           !range->is_freeing;
}

CUresult cuMemFreeHost(void *pointer)
{
    ENTER(cuMemFreeHost, NEEDS_INIT | BREAKS_CAPTURE);
    if (!pointer)
        return CUDA_SUCCESS;
    standin_lock();
    struct address_range *range = find_host(pointer);
    if (!range)
        return standin_leave(context_unknown_address());
    if (!is_base_of(range, pointer, ADDRESS_PINNED))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    size_t size_bytes = range->size_bytes;
    return leave_charged(ENTRY_cuMemFreeHost, size_bytes,
                         range_drain_and_release(range));
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *pointer,
                                      unsigned flags)
{
    ENTER(cuMemHostGetDevicePointer_v2, NEEDS_INIT);
    CUresult code;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    if (!context_current(&code))
        return standin_leave(code);
    if (!find_host(pointer))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    *out = (uintptr_t)pointer;
    return standin_leave(CUDA_SUCCESS);
}

CUresult cuMemHostGetFlags(unsigned *out, void *pointer)
{
    ENTER(cuMemHostGetFlags, NEEDS_INIT);
    CUresult code;
    standin_lock();
    const struct address_range *range = find_host(pointer);
    if (!context_current(&code))
        return standin_leave(code);
    if (!out || !range)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    *out = range->flags;
    return standin_leave(CUDA_SUCCESS);
}

/* True when the process has [base, end) mapped with the rights `needed`
 * ("rw"), as its map says; touches no page. */
static bool host_memory_is_mapped(uintptr_t base, uintptr_t end,
                                  const char *needed)
{
    unsigned long from;
    unsigned long to;
    char rights[5];
    char line[512];
    FILE *map = fopen("/proc/self/maps", "re");
    if (!map)
        return true; /* nothing to go by */
    while (base < end && fgets(line, sizeof(line), map)) {
        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || to <= base)
            continue;
        if (from > base || strncmp(rights, needed, strlen(needed)) != 0)
            break;
        base = to;
    }
    (void)fclose(map);
    return base >= end;
}

static CUresult check_register(const void *pointer, size_t size_bytes,
                               unsigned flags)
{
    uintptr_t base = (uintptr_t)pointer;
    if (!pointer || size_bytes == 0 || base + size_bytes < base ||
        (flags & ~(unsigned)REGISTER_FLAGS) ||
        (flags & CU_MEMHOSTREGISTER_IOMEMORY))
        return CUDA_ERROR_INVALID_VALUE;
    size_t index = address_index(&address_live, base);
    if (address_overlaps(&address_live, base, size_bytes))
        return address_live.slots[index].range->kind == ADDRESS_REGISTERED
                   ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                   : CUDA_ERROR_INVALID_VALUE;
    const char *needed = flags & CU_MEMHOSTREGISTER_READ_ONLY ? "r" : "rw";
    if (memory_is_device_like(base) ||
        !host_memory_is_mapped(base, base + size_bytes, needed))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult register_memory(void *pointer, size_t size_bytes,
                                unsigned flags)
{
    CUresult code;
    standin_lock();
    struct CUctx_st *context = context_current(&code);
    if (context)
        code = check_register(pointer, size_bytes, flags);
    if (code == CUDA_SUCCESS)
        code = host_memory_note(context, ADDRESS_REGISTERED, pointer,
                                size_bytes, flags);
    return leave_charged(ENTRY_cuMemHostRegister_v2, size_bytes, code);
}

CUresult cuMemHostRegister(void *pointer, size_t size_bytes, unsigned flags)
{
    ENTER(cuMemHostRegister, NEEDS_INIT | BREAKS_CAPTURE);
    return register_memory(pointer, size_bytes, flags);
}

CUresult cuMemHostRegister_v2(void *pointer, size_t size_bytes, unsigned flags)
{
    ENTER(cuMemHostRegister_v2, NEEDS_INIT | BREAKS_CAPTURE);
    return register_memory(pointer, size_bytes, flags);
}

CUresult cuMemHostUnregister(void *pointer)
{
    ENTER(cuMemHostUnregister, NEEDS_INIT | BREAKS_CAPTURE);
    if (!pointer)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    struct address_range *range =
        address_find(&address_live, (uintptr_t)pointer);
    if (!range)
        return standin_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    if (!is_base_of(range, pointer, ADDRESS_REGISTERED))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    size_t size_bytes = range->size_bytes;
    return leave_charged(ENTRY_cuMemHostUnregister, size_bytes,
                         range_drain_and_release(range));
}
