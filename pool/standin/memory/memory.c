/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the rest of the stand-in asks of memory: where an address leads, and
 * the end of everything that a context owns.
 */
#include "pool/standin/memory/memory.h"

#include <string.h>
#include <sys/mman.h>

#include "pool/standin/memory/device_memory.h"
#include "pool/standin/memory/release.h"
#include "pool/standin/streams/engine.h"

static bool has_access(const struct address_range *range)
{
    if (range->kind != ADDRESS_MAPPING)
        return true;
    bool has = range->host_access != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (int i = 0; i < STANDIN_DEVICE_MAX; i++)
        has = has || range->access[i] != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return has;
}

/* VMM memory is one piece over all mappings that follow one another within a
 * reservation, and so is its shadow; other memory ends with its allocation. */
static bool is_one_piece(const struct address_range *range, uint64_t end)
{
    const struct address_range *home = range;
    if (range->kind == ADDRESS_MAPPING)
        home = address_find(&address_reserved, range->base);
    while (has_access(range)) {
        if (end <= address_end(range))
            return true;
        range = address_find(&address_live, address_end(range));
        if (home->kind != ADDRESS_RESERVATION || !range ||
            end > address_end(home))
            return false;
    }
    return false;
}

bool memory_is_device_like(uint64_t address)
{
    for (int i = 0; i < device_count(); i++)
        if (device_memory_has(device_at(i), address))
            return true;
    return address_find(&address_reserved, address) ||
           address_is_retired(address);
}

/* The process's own memory, which may have been registered in part: where it
 * begins decides (host-memory.register of the conformance test). */
static bool is_ordinary(CUdeviceptr address, size_t size_bytes)
{
    for (size_t i = address_index(&address_live, address);
         i < address_live.count &&
         address_live.slots[i].base < address + size_bytes;
         i++)
        if (address_live.slots[i].range->kind != ADDRESS_REGISTERED)
            return false;
    return !memory_is_device_like(address);
}

CUresult memory_resolve(CUdeviceptr address, size_t size_bytes,
                        unsigned char **out)
{
    struct address_range *range = address_find(&address_live, address);
    if (address + size_bytes < address)
        return CUDA_ERROR_INVALID_VALUE;
    if (range && !is_one_piece(range, address + size_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!range && !is_ordinary(address, size_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (range)
        *out = range->shadow + (address - range->base);
    else
        *out = (unsigned char *)(uintptr_t)address;
    return CUDA_SUCCESS;
}

bool memory_is_for(CUdeviceptr address, size_t size_bytes, int device)
{
    CUdeviceptr end = address + size_bytes;
    while (address < end) {
        const struct address_range *range =
            address_find(&address_live, address);
        if (!range || range->kind != ADDRESS_MAPPING || !range->device)
            return true;
        if (range->access[device] == CU_MEM_ACCESS_FLAGS_PROT_NONE)
            return false;
        address = address_end(range);
    }
    return true;
}

bool memory_is_pageable(CUdeviceptr address)
{
    return !address_find(&address_live, address) &&
           !memory_is_device_like(address);
}

void range_release(struct address_range *range)
{
    if (range->end)
        range->end(range);
    address_remove(&address_live, range);
}

void range_unmap(struct address_range *range)
{
    munmap((void *)(uintptr_t)range->base, range->size_bytes);
}

CUresult range_drain_and_release(struct address_range *range)
{
    uint64_t base = range->base;
    uint64_t id = range->id;
    range->is_freeing = true;
    CUresult code = engine_drain_and_stall(range->context);
    range = address_find(&address_live, base);
    if (!range || range->id != id)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    range->is_freeing = code == CUDA_SUCCESS;
    if (code == CUDA_SUCCESS)
        range_release(range);
    return code;
}

void memory_context_fini(struct CUctx_st *context)
{
    for (size_t i = address_live.count; i > 0; i--) {
        struct address_range *range = address_live.slots[i - 1].range;
        if (range->context == context)
            range_release(range);
    }
}

size_t memory_used_bytes(int device)
{
    return device_at(device)->memory->used_bytes;
}

static int64_t count_kinds(unsigned kinds)
{
    int64_t count = 0;
    for (size_t i = 0; i < address_live.count; i++)
        if (kinds & (1U << address_live.slots[i].range->kind))
            count++;
    return count;
}

int64_t memory_live(const char *kind)
{
    if (strcmp(kind, "allocations") == 0)
        return count_kinds(1U << ADDRESS_DEVICE | 1U << ADDRESS_POOL |
                           1U << ADDRESS_MANAGED);
    if (strcmp(kind, "host") == 0)
        return count_kinds(1U << ADDRESS_PINNED | 1U << ADDRESS_REGISTERED);
    if (strcmp(kind, "ipc") == 0)
        return count_kinds(1U << ADDRESS_IMPORTED);
    if (strcmp(kind, "vmm") == 0)
        return count_kinds(1U << ADDRESS_MAPPING) +
               (int64_t)address_reserved.count;
    return -1;
}
