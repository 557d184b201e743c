/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Address reservations, and what is mapped into them. A mapping shows its
 * memory in the reservation's shadow from the start; access rights only decide
 * what memory_resolve() and, for host memory, the CPU may do with it.
 */
#include <string.h>
#include <sys/mman.h>

#include "pool/standin/entries/entry.h"
#include "pool/standin/entries/memory_api.h"
#include "pool/standin/memory/numa_node.h"
#include "pool/standin/memory/release.h"
#include "pool/standin/vmm/vmm.h"

static bool is_power_of_two(size_t value)
{
    return value && (value & (value - 1)) == 0;
}

static bool is_granular(uint64_t base, size_t size_bytes)
{
    return size_bytes && (base | size_bytes) % GRANULE_BYTES == 0;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size_bytes,
                             size_t alignment, CUdeviceptr hint,
                             unsigned long long flags)
{
    ENTER(cuMemAddressReserve, NEEDS_INIT);
    if (!out || flags || !is_granular(hint, size_bytes) ||
        (alignment && !is_power_of_two(alignment)))
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < GRANULE_BYTES)
        alignment = GRANULE_BYTES;
    struct address_range range = {.size_bytes = size_bytes,
                                  .kind = ADDRESS_RESERVATION};
    standin_lock();
    range.base = address_reserve(size_bytes, alignment, hint, &range.shadow);
    if (!range.base)
        return standin_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if (!address_add(&address_reserved, &range)) {
        address_retire(range.base, size_bytes, range.shadow);
        return standin_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *out = range.base;
    return standin_leave(CUDA_SUCCESS);
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size_bytes)
{
    ENTER(cuMemAddressFree, NEEDS_INIT);
    standin_lock();
    struct address_range *range = address_find(&address_reserved, address);
    if (!range || range->base != address || range->size_bytes != size_bytes ||
        address_overlaps(&address_live, address, size_bytes))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    address_retire(range->base, range->size_bytes, range->shadow);
    address_remove(&address_reserved, range);
    return standin_leave(CUDA_SUCCESS);
}

static bool map_is_within(const struct address_range *range, uint64_t base,
                          size_t size_bytes)
{
    return range && size_bytes <= address_end(range) - base;
}

static bool show(const struct physical *physical, unsigned char *where,
                 size_t size_bytes, int protection)
{
    if (mmap(where, size_bytes, protection,
             MAP_SHARED | MAP_NORESERVE | MAP_FIXED, physical->fd,
             physical->offset) == MAP_FAILED)
        return false;
    CUmemLocation location = physical->properties.location;
    if (location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
        numa_node_bind(where, size_bytes, location.id);
    return true;
}

/* What the CPU may do at the addresses themselves. */
static bool set_host_access(struct address_range *range,
                            CUmemAccess_flags flags)
{
    unsigned char *where = (unsigned char *)(uintptr_t)range->base;
    if (range->host_access == flags)
        return true;
    range->host_access = flags;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
        return mmap(where, range->size_bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                    0) != MAP_FAILED;
    int protection = flags == CU_MEM_ACCESS_FLAGS_PROT_READ
                         ? PROT_READ
                         : PROT_READ | PROT_WRITE;
    return show(range->physical, where, range->size_bytes, protection);
}

/* The driver does not wait here: what is still queued for these addresses
 * comes too late, and must find nobody's memory. */
static void mapping_end(struct address_range *range)
{
    struct physical *physical = range->physical;
    (void)set_host_access(range, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    address_make_scratch(range->shadow, range->size_bytes);
    physical->mapping_count--;
    physical_drop_unused(physical);
}

static CUresult vmm_map(uint64_t base, size_t size_bytes,
                        struct physical *physical)
{
    const struct address_range *home = address_find(&address_reserved, base);
    if (!map_is_within(home, base, size_bytes) ||
        address_overlaps(&address_live, base, size_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    const struct address_range range = {
        .base = base,
        .size_bytes = size_bytes,
        .kind = ADDRESS_MAPPING,
        .end = mapping_end,
        .shadow = home->shadow + (base - home->base),
        .flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP,
        .device = physical->device,
        .physical = physical,
        .handle_types = (unsigned)physical->properties.requestedHandleTypes,
    };
    struct address_range *added = address_add(&address_live, &range);
    if (!added)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!show(physical, range.shadow, size_bytes, PROT_READ | PROT_WRITE)) {
        address_remove(&address_live, added);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->mapping_count++;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t size_bytes, size_t offset_bytes,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    ENTER(cuMemMap, NEEDS_INIT);
    if (flags || size_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    struct physical *physical = physical_find(handle);
    if (!physical)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    if (offset_bytes || size_bytes != physical->size_bytes)
        return standin_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (!is_granular(address, size_bytes))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    return standin_leave(vmm_map(address, size_bytes, physical));
}

/* Mappings that fill [base, base + size_bytes) from end to end: their first
 * index and their count, 0 when they do not. */
static size_t whole_mappings(uint64_t base, size_t size_bytes,
                             size_t *out_first)
{
    uint64_t next = base;
    size_t first = address_index(&address_live, base);
    size_t index = first;
    while (next - base < size_bytes) {
        if (index == address_live.count ||
            address_live.slots[index].base != next ||
            address_live.slots[index].range->kind != ADDRESS_MAPPING)
            return 0;
        next = address_end(address_live.slots[index].range);
        index++;
    }
    *out_first = first;
    return next - base == size_bytes ? index - first : 0;
}

/* True when [base, base + size_bytes) cuts no mapping in two; it may have
 * places where nothing is mapped. */
static bool cuts_nothing(uint64_t base, size_t size_bytes)
{
    const struct address_range *first = address_find(&address_live, base);
    const struct address_range *last =
        address_find(&address_live, base + size_bytes - 1);
    return (!first || first->base == base) &&
           (!last || address_end(last) == base + size_bytes);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size_bytes)
{
    ENTER(cuMemUnmap, NEEDS_INIT);
    if (!is_granular(address, size_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    const struct address_range *home = address_find(&address_reserved, address);
    if (!home || address + size_bytes < address ||
        !cuts_nothing(address, size_bytes))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    while (address_overlaps(&address_live, address, size_bytes)) {
        size_t index = address_index(&address_live, address);
        range_release(address_live.slots[index].range);
    }
    return standin_leave(CUDA_SUCCESS);
}

static CUresult map_check_right(const struct address_range *range,
                                const CUmemAccessDesc *right)
{
    if (right->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        right->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        right->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    switch (right->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return device_at(right->location.id) ? CUDA_SUCCESS
                                             : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        /* The CPU cannot reach device memory. */
        return range->device ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult map_grant(struct address_range *range,
                          const CUmemAccessDesc *right)
{
    if (right->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        range->access[right->location.id] = right->flags;
    else if (!set_host_access(range, right->flags))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

/* Either looks at all rights over all mappings, or grants them. */
static CUresult for_rights(size_t first, size_t mapping_count,
                           const CUmemAccessDesc *rights, size_t right_count,
                           bool is_grant)
{
    for (size_t i = first; i < first + mapping_count; i++) {
        struct address_range *range = address_live.slots[i].range;
        for (size_t j = 0; j < right_count; j++) {
            CUresult code = is_grant ? map_grant(range, &rights[j])
                                     : map_check_right(range, &rights[j]);
            if (code != CUDA_SUCCESS)
                return code;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size_bytes,
                        const CUmemAccessDesc *rights, size_t right_count)
{
    ENTER(cuMemSetAccess, NEEDS_INIT);
    size_t first;
    if (!rights || right_count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    size_t mapping_count = whole_mappings(address, size_bytes, &first);
    if (mapping_count == 0)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    CUresult code =
        for_rights(first, mapping_count, rights, right_count, false);
    if (code == CUDA_SUCCESS)
        code = for_rights(first, mapping_count, rights, right_count, true);
    return standin_leave(code);
}

CUresult cuMemGetAccess(unsigned long long *out, const CUmemLocation *location,
                        CUdeviceptr address)
{
    ENTER(cuMemGetAccess, NEEDS_INIT);
    if (!out || !location)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    const struct address_range *range = address_find(&address_live, address);
    bool is_host = location->type == CU_MEM_LOCATION_TYPE_HOST ||
                   location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    if (!range || range->kind != ADDRESS_MAPPING ||
        (!is_host && location->type != CU_MEM_LOCATION_TYPE_DEVICE))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    if (!is_host && !device_at(location->id))
        return standin_leave(CUDA_ERROR_INVALID_DEVICE);
    *out = is_host ? range->host_access : range->access[location->id];
    return standin_leave(CUDA_SUCCESS);
}
