/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * cuMemCreate, the handles it gives, and such memory between processes: its
 * file is what is passed on, by a descriptor or by a fabric handle, and says by
 * itself what it is.
 */
#include "pool/standin/vmm/vmm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/standin/entries/entry.h"
#include "pool/standin/entries/memory_api.h"
#include "pool/standin/memory/numa_node.h"
#include "pool/standin/settings/settings.h"
#include "pool/standin/vmm/file.h"

static struct physical **physicals; /* sorted by handle */
static size_t physical_count;
static size_t physical_capacity;
static CUmemGenericAllocationHandle next_handle = 1;

static size_t vmm_index_of(CUmemGenericAllocationHandle handle)
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
    size_t index = vmm_index_of(handle);
    if (index == physical_count || physicals[index]->handle != handle ||
        physicals[index]->handle_count == 0)
        return NULL;
    return physicals[index];
}

/* The one whose own file this is; NULL when none. */
static struct physical *find_file(ino_t inode)
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

static bool vmm_make_room(void)
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

/* Notes a copy of `physical` under a fresh handle with one reference. NULL
 * when host memory ran out. */
static struct physical *vmm_note(const struct physical *physical)
{
    struct physical *copy = malloc(sizeof(*copy));
    if (!copy || !vmm_make_room()) {
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
    size_t index = vmm_index_of(physical->handle);
    memmove(&physicals[index], &physicals[index + 1],
            (physical_count - index - 1) * sizeof(struct physical *));
    physical_count--;
    free(physical);
}

static CUresult vmm_check_location(const CUmemAllocationProp *properties)
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
    CUresult code = vmm_check_location(properties);
    if (code == CUDA_SUCCESS && (wanted & CU_MEM_HANDLE_TYPE_FABRIC) &&
        settings_get()->fabric != STANDIN_FABRIC_READY)
        return CUDA_ERROR_NOT_PERMITTED; /* there is no fabric here */
    return code;
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
    code = vmm_file_make(physical->size_bytes, &physical->properties,
                         &physical->fd, &physical->inode);
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
    const struct physical *made = vmm_note(&physical);
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
    /* What others have mapped stays; nobody else gets it. */
    if (physical->handle_count == 0 && physical->proof &&
        vmm_file_write_proof(physical->fd, physical->size_bytes, 0))
        physical->proof = 0;
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

static CUresult export_descriptor(const struct physical *physical, int *out)
{
    int fd = fcntl(physical->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *out = fd;
    return CUDA_SUCCESS;
}

/* One type at a time, and as the memory was created. */
static bool is_exportable_as(const struct physical *physical,
                             CUmemAllocationHandleType type)
{
    return (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
            type == CU_MEM_HANDLE_TYPE_FABRIC) &&
           ((unsigned)physical->properties.requestedHandleTypes & type);
}

CUresult cuMemExportToShareableHandle(void *out,
                                      CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    ENTER(cuMemExportToShareableHandle, NEEDS_INIT);
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    struct physical *physical = physical_find(handle);
    if (!physical || !is_exportable_as(physical, type))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    return standin_leave(type == CU_MEM_HANDLE_TYPE_FABRIC
                             ? fabric_handle_make(physical, out)
                             : export_descriptor(physical, out));
}

static CUresult import_file(int fd, ino_t inode,
                            const struct vmm_trailer *trailer,
                            CUmemGenericAllocationHandle *out)
{
    struct physical physical = {
        .size_bytes = trailer->size_bytes,
        .properties = trailer->properties,
        .has_own_file = true,
        .inode = inode,
    };
    /* An importer cannot pass it on. */
    physical.properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    CUmemLocation location = trailer->properties.location;
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        physical.device = device_at(location.id);
        if (!physical.device)
            return CUDA_ERROR_INVALID_DEVICE;
    }
    /* The caller keeps its own descriptor, as with the driver. */
    physical.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (physical.fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    const struct physical *made = vmm_note(&physical);
    if (!made) {
        close(physical.fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = made->handle;
    return CUDA_SUCCESS;
}

static CUresult import_shared(int fd, CUmemGenericAllocationHandle *out)
{
    struct vmm_trailer trailer;
    ino_t inode;
    if (!vmm_file_read(fd, &inode, &trailer))
        return CUDA_ERROR_UNKNOWN; /* what the driver says of a strange file */
    standin_lock();
    struct physical *known = find_file(inode);
    if (!known)
        return standin_leave(import_file(fd, inode, &trailer, out));
    known->handle_count++;
    *out = known->handle;
    return standin_leave(CUDA_SUCCESS);
}

static CUresult import_fabric(const CUmemFabricHandle *shared,
                              CUmemGenericAllocationHandle *out)
{
    int fd;
    if (settings_get()->fabric != STANDIN_FABRIC_READY)
        return CUDA_ERROR_NOT_PERMITTED; /* there is no fabric here */
    CUresult code = fabric_handle_open(shared, &fd);
    if (code != CUDA_SUCCESS)
        return code;
    code = import_shared(fd, out);
    close(fd);
    return code;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out,
                                        void *shared,
                                        CUmemAllocationHandleType type)
{
    ENTER(cuMemImportFromShareableHandle, NEEDS_INIT);
    if (out && type == CU_MEM_HANDLE_TYPE_FABRIC)
        return shared ? import_fabric(shared, out) : CUDA_ERROR_INVALID_VALUE;
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    return import_shared((int)(intptr_t)shared, out);
}
