/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Legacy IPC: device memory of one process opened by another. The handle says
 * where the exporter keeps its device's file; the importer opens that through
 * /proc and maps it. A word in the file proves that the allocation is still
 * the one that was exported. Nothing outlives the processes.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "pool/standin/entries/entry.h"
#include "pool/standin/entries/memory_api.h"
#include "pool/standin/ipc/handle.h"
#include "pool/standin/memory/device_memory.h"
#include "pool/standin/memory/release.h"
#include "pool/standin/streams/engine.h"

struct import {
    struct import *next;
    CUipcMemHandle handle;
    struct CUctx_st *context;
    struct address_range *range;
    unsigned open_count;
    uint64_t map_base; /* whole granules around the allocation */
    size_t map_bytes;
    unsigned char *map_shadow;
};

static struct import *imports;

/* Differs between allocations, and between processes that had the same pid. */
static uint64_t proof_of(const struct address_range *range)
{
    static uint64_t seed;
    if (!seed && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
        seed = 0;
    seed |= 1;
    return seed ^ (range->id << 1);
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr address)
{
    ENTER(cuIpcGetMemHandle, NEEDS_INIT);
    CUresult code;
    standin_lock();
    struct address_range *range = address_find(&address_live, address);
    if (!context_current(&code))
        return standin_leave(code);
    if (!out || !range || range->kind != ADDRESS_DEVICE)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    const struct device_memory *memory = range->device->memory;
    _Atomic(uint64_t) *word =
        device_memory_export_word(range->device, range->base);
    struct ipc_handle handle = {
        .device = range->device->ordinal,
        .fd = memory->fd,
        .offset = range->base - memory->base,
        .size_bytes = range->size_bytes,
        .proof_offset = 2 * memory->arena_bytes +
                        (uint64_t)(word - memory->export) * sizeof(*word),
        .proof = proof_of(range),
    };
    if (!ipc_handle_seal(&handle, out))
        return standin_leave(CUDA_ERROR_OPERATING_SYSTEM);
    range->is_exported = true;
    /* relaxed: the word is all that an importer reads. */
    atomic_store_explicit(word, handle.proof, memory_order_relaxed);
    return standin_leave(CUDA_SUCCESS);
}

static struct import *ipc_find_open(const CUipcMemHandle *handle,
                                    const struct CUctx_st *context)
{
    for (struct import *i = imports; i; i = i->next)
        if (i->context == context &&
            memcmp(&i->handle, handle, sizeof(*handle)) == 0)
            return i;
    return NULL;
}

/* Maps the granules around the allocation: `import` gets the addresses. */
static bool map_import(struct import *import, const struct ipc_handle *handle,
                       int fd)
{
    uint64_t first = handle->offset - handle->offset % GRANULE_BYTES;
    uint64_t end = round_up(handle->offset + handle->size_bytes, GRANULE_BYTES);
    import->map_bytes = end - first;
    import->map_base = address_reserve(import->map_bytes, GRANULE_BYTES, 0,
                                       &import->map_shadow);
    if (!import->map_base)
        return false;
    if (mmap(import->map_shadow, import->map_bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
             (off_t)first) != MAP_FAILED)
        return true;
    address_retire(import->map_base, import->map_bytes, import->map_shadow);
    return false;
}

static void import_end(struct address_range *range)
{
    struct import *import = range->import;
    struct import **link = &imports;
    while (*link != import)
        link = &(*link)->next;
    *link = import->next;
    address_retire(import->map_base, import->map_bytes, import->map_shadow);
    free(import);
}

static CUresult add_import(struct import *import,
                           const struct ipc_handle *handle, int fd)
{
    if (!map_import(import, handle, fd))
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t inset = handle->offset % GRANULE_BYTES;
    const struct address_range range = {
        .base = import->map_base + inset,
        .size_bytes = handle->size_bytes,
        .kind = ADDRESS_IMPORTED,
        .end = import_end,
        .shadow = import->map_shadow + inset,
        .device = device_at(handle->device),
        .context = import->context,
        .import = import,
    };
    import->range = address_add(&address_live, &range);
    if (!import->range) {
        address_retire(import->map_base, import->map_bytes, import->map_shadow);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    import->next = imports;
    imports = import;
    return CUDA_SUCCESS;
}

static CUresult open_new(const CUipcMemHandle *raw, struct CUctx_st *context,
                         CUdeviceptr *out)
{
    struct ipc_handle handle;
    int fd;
    CUresult code = ipc_handle_open(raw, &handle, &fd);
    if (code != CUDA_SUCCESS)
        return code;
    struct import *import = calloc(1, sizeof(*import));
    code = CUDA_ERROR_OUT_OF_MEMORY;
    if (import) {
        import->handle = *raw;
        import->context = context;
        import->open_count = 1;
        code = add_import(import, &handle, fd);
    }
    close(fd); /* the mapping keeps the file */
    if (code == CUDA_SUCCESS)
        *out = import->range->base;
    else
        free(import);
    return code;
}

static CUresult open_handle(CUdeviceptr *out, const CUipcMemHandle *handle,
                            unsigned flags)
{
    CUresult code;
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    struct CUctx_st *context = context_current(&code);
    if (!context)
        return standin_leave(code);
    struct import *import = ipc_find_open(handle, context);
    if (!import)
        return standin_leave(open_new(handle, context, out));
    import->open_count++;
    *out = import->range->base;
    return standin_leave(CUDA_SUCCESS);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle,
                            unsigned flags)
{
    ENTER(cuIpcOpenMemHandle, NEEDS_INIT);
    return open_handle(out, &handle, flags);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle,
                               unsigned flags)
{
    ENTER(cuIpcOpenMemHandle_v2, NEEDS_INIT);
    return open_handle(out, &handle, flags);
}

static struct address_range *imported_range(CUdeviceptr address)
{
    struct address_range *range = address_find(&address_live, address);
    bool is_base =
        range && range->kind == ADDRESS_IMPORTED && range->base == address;
    return is_base ? range : NULL;
}

/* Every close waits for all that is queued, whatever it uses, in every
 * context, also while the handle is open elsewhere: so does the driver. */
CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    ENTER(cuIpcCloseMemHandle, NEEDS_INIT);
    CUresult code;
    standin_lock();
    if (!context_current(&code))
        return standin_leave(code);
    if (!imported_range(address))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    for (struct CUctx_st *c = context_first(); c; c = c->next) {
        code = engine_drain_and_stall(c);
        if (code != CUDA_SUCCESS)
            return standin_leave(code);
    }
    /* The lock was released: another thread may have closed it. */
    struct address_range *range = imported_range(address);
    if (!range)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    if (--range->import->open_count == 0)
        range_release(range);
    return standin_leave(CUDA_SUCCESS);
}
