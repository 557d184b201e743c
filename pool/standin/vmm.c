/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * cuMemCreate and the handles it gives.
 */
#include "pool/standin/vmm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/standin/entry.h"
#include "pool/standin/memory_api.h"
#include "pool/standin/numa_node.h"

static struct physical **physicals; /* sorted by handle */
static size_t physical_count;
static size_t physical_capacity;
static CUmemGenericAllocationHandle next_handle = 1;

static size_t index_of(CUmemGenericAllocationHandle handle)
{
    size_t low = 0;
    size_t high = physical_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (physicals[middle]->handle < handle)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct physical *physical_find(CUmemGenericAllocationHandle handle)
{
    size_t index = index_of(handle);
    if (index == physical_count || physicals[index]->handle != handle ||
        physicals[index]->handle_count == 0)
        return NULL;
    return physicals[index];
}

struct physical *physical_find_file(ino_t inode)
{
    for (size_t i = 0; i < physical_count; i++)
        if (physicals[i]->has_own_file && physicals[i]->inode == inode)
            return physicals[i];
    return NULL;
}

size_t physical_live(void)
{
    size_t count = 0;
    for (size_t i = 0; i < physical_count; i++)
        count += physicals[i]->handle_count > 0;
    return count;
}

static bool make_room(void)
{
    if (physical_count < physical_capacity)
        return true;
    size_t capacity = physical_capacity ? 2 * physical_capacity : 64;
    struct physical **larger =
        realloc(physicals, capacity * sizeof(struct physical *));
    if (!larger)
        return false;
    physicals = larger;
    physical_capacity = capacity;
    return true;
}

struct physical *physical_add(const struct physical *physical)
{
    struct physical *copy = malloc(sizeof(*copy));
    if (!copy || !make_room()) {
        free(copy);
        return NULL;
    }
    *copy = *physical;
    copy->handle = next_handle++;
    copy->handle_count = 1;
    physicals[physical_count++] = copy; /* handles only grow: still sorted */
    return copy;
}

/* Gives back the memory, not the entry. */
static void free_memory(const struct physical *physical)
{
    if (physical->has_own_file) {
        close(physical->fd);
        if (physical->is_charged)
            device_memory_uncharge(physical->device, physical->size_bytes);
    } else {
        device_memory_give_physical(
            physical->device, (uint64_t)physical->offset, physical->size_bytes);
    }
}

void physical_drop_unused(struct physical *physical)
{
    if (physical->handle_count || physical->mapping_count)
        return;
    free_memory(physical);
    size_t index = index_of(physical->handle);
    memmove(&physicals[index], &physicals[index + 1],
            (physical_count - index - 1) * sizeof(struct physical *));
    physical_count--;
    free(physical);
}

static CUresult check_location(const CUmemAllocationProp *properties)
{
    switch (properties->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return device_at(properties->location.id) ? CUDA_SUCCESS
                                                  : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
        return properties->requestedHandleTypes ? CUDA_ERROR_INVALID_VALUE
                                                : CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return numa_node_exists(properties->location.id)
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult check_properties(const CUmemAllocationProp *properties)
{
    const unsigned foreign =
        CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT;
    unsigned wanted = (unsigned)properties->requestedHandleTypes;
    if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED || (wanted & foreign))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult code = check_location(properties);
    if (code == CUDA_SUCCESS && (wanted & CU_MEM_HANDLE_TYPE_FABRIC))
        return CUDA_ERROR_NOT_PERMITTED; /* there is no fabric here */
    return code;
}

/* Memory in a file of its own. */
static CUresult make_file(struct physical *physical)
{
    struct stat status;
    size_t pages = (size_t)sysconf(_SC_PHYS_PAGES);
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (physical->size_bytes / page_bytes > pages)
        return CUDA_ERROR_OUT_OF_MEMORY;
    physical->fd = memfd_create("binade_standin_vmm", MFD_CLOEXEC);
    if (physical->fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (!physical_write_trailer(physical->fd, physical->size_bytes,
                                &physical->properties) ||
        fstat(physical->fd, &status) != 0) {
        close(physical->fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->inode = status.st_ino;
    return CUDA_SUCCESS;
}

static CUresult make_memory(struct physical *physical)
{
    uint64_t offset = 0;
    CUresult code;
    physical->has_own_file =
        !physical->device || physical->properties.requestedHandleTypes;
    if (!physical->has_own_file) {
        code = device_memory_take_physical(physical->device,
                                           physical->size_bytes, &offset);
        physical->fd = physical->device->memory->fd;
        physical->offset = (off_t)offset;
        return code;
    }
    physical->is_charged = physical->device;
    if (physical->device &&
        !device_memory_charge(physical->device, physical->size_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    code = make_file(physical);
    if (code != CUDA_SUCCESS && physical->device)
        device_memory_uncharge(physical->device, physical->size_bytes);
    return code;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size_bytes,
                     const CUmemAllocationProp *properties,
                     unsigned long long flags)
{
    ENTER(cuMemCreate, NEEDS_INIT);
    if (!out || !properties || flags || size_bytes == 0 ||
        size_bytes % GRANULE_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult code = check_properties(properties);
    if (code != CUDA_SUCCESS)
        return code;
    struct physical physical = {.size_bytes = size_bytes,
                                .properties = *properties};
    if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        physical.device = device_at(properties->location.id);
    standin_lock();
    code = make_memory(&physical);
    if (code != CUDA_SUCCESS)
        return standin_leave(code);
    const struct physical *made = physical_add(&physical);
    if (!made) {
        free_memory(&physical);
        return standin_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *out = made->handle;
    return standin_leave(CUDA_SUCCESS);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    ENTER(cuMemRelease, NEEDS_INIT);
    standin_lock();
    struct physical *physical = physical_find(handle);
    if (!physical)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    physical->handle_count--;
    physical_drop_unused(physical);
    return standin_leave(CUDA_SUCCESS);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out,
                                     void *address)
{
    ENTER(cuMemRetainAllocationHandle, NEEDS_INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    const struct address_range *range =
        address_find(&address_live, (uintptr_t)address);
    if (!range || range->kind != ADDRESS_MAPPING)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    range->physical->handle_count++;
    *out = range->physical->handle;
    return standin_leave(CUDA_SUCCESS);
}

CUresult cuMemGetAllocationGranularity(size_t *out,
                                       const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option)
{
    ENTER(cuMemGetAllocationGranularity, NEEDS_INIT);
    if (!out || !properties ||
        (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
         option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    *out = GRANULE_BYTES; /* whatever the properties say */
    return CUDA_SUCCESS;
}

CUresult
cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out,
                                       CUmemGenericAllocationHandle handle)
{
    ENTER(cuMemGetAllocationPropertiesFromHandle, NEEDS_INIT);
    standin_lock();
    const struct physical *physical = physical_find(handle);
    if (!out || !physical)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    *out = physical->properties;
    return standin_leave(CUDA_SUCCESS);
}
