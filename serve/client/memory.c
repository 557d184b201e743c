/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "serve/client/memory.h"

#include <string.h>

#include "pool/base/failure.h"
#include "pool/driver/context.h"
#include "pool/driver/section.h"

moiety_status moietyi_part_driver(const struct moietyi_driver **out)
{
    moiety_status status = moietyi_driver_open(out);
    if (status != MOIETY_OK)
        return status;
    const struct moietyi_driver *driver = *out;
    if (driver->cuMemCreate && driver->cuMemRelease &&
        driver->cuMemExportToShareableHandle &&
        driver->cuMemImportFromShareableHandle && driver->cuMemAddressReserve &&
        driver->cuMemAddressFree && driver->cuMemMap && driver->cuMemUnmap &&
        driver->cuMemSetAccess)
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_UNSUPPORTED,
                        "the driver maps no memory, so it has no regions");
}

moiety_status moietyi_part_device(const struct moietyi_driver *driver,
                                  int32_t ordinal, CUdevice *out_device,
                                  uint8_t *out_uuid)
{
    int count = 0;
    CUuuid uuid;
    moiety_status status = MOIETYI_CALL(driver, cuDeviceGetCount, (&count));
    if (status == MOIETY_OK && (ordinal < 0 || ordinal >= count))
        status = moietyi_fail(MOIETY_E_INVALID,
                              "there are %d devices, and no device %d", count,
                              (int)ordinal);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuDeviceGet, (out_device, ordinal));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuDeviceGetUuid, (&uuid, *out_device));
    if (status == MOIETY_OK)
        memcpy(out_uuid, uuid.bytes, sizeof(uuid.bytes));
    return status;
}

static moiety_status part_check_context(const struct moietyi_driver *driver,
                                        CUcontext context, CUdevice wanted)
{
    struct moietyi_section section;
    CUdevice device = 0;
    moiety_status status = moietyi_context_check(driver, context);
    if (status == MOIETY_OK)
        status = moietyi_section_enter(driver, context, &section);
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(driver, cuCtxGetDevice, (&device));
    moiety_status left = moietyi_section_leave(&section);
    if (status == MOIETY_OK)
        status = left;
    if (status != MOIETY_OK || device == wanted)
        return status;
    return moietyi_fail(MOIETY_E_INVALID,
                        "the context of a part is of device %d, not of %d",
                        (int)device, (int)wanted);
}

/* Nobody would try again later. */
static void part_free_addresses(const struct moietyi_driver *driver,
                                CUdeviceptr address, uint64_t size_bytes)
{
    if (driver->cuMemAddressFree(address, size_bytes) != CUDA_SUCCESS)
        (void)driver->cuMemAddressFree(address, size_bytes);
}

moiety_status moietyi_part_reserve(struct moietyi_part_memory *memory,
                                   const moiety_region_part *wanted,
                                   uint64_t size_bytes)
{
    const struct moietyi_driver *driver = memory->driver;
    CUdeviceptr address = 0;
    memory->context = wanted->context;
    memory->size_bytes = size_bytes;
    if (!memory->context)
        return MOIETY_OK;
    moiety_status status =
        part_check_context(driver, memory->context, memory->device);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuMemAddressReserve,
                              (&address, size_bytes, MOIETYI_SERVE_PAGE_BYTES,
                               wanted->want_address, 0));
    if (status != MOIETY_OK)
        return status;
    if (!wanted->want_address || address == wanted->want_address) {
        memory->address = address;
        return MOIETY_OK;
    }
    part_free_addresses(driver, address, size_bytes);
    return moietyi_fail(MOIETY_E_IN_USE,
                        "%llu bytes at address %#llx are not free",
                        (unsigned long long)size_bytes,
                        (unsigned long long)wanted->want_address);
}

/* Maps a handle and gives it back: the mapping keeps its memory. */
static moiety_status part_map(struct moietyi_part_memory *memory,
                              uint64_t size_bytes,
                              CUmemGenericAllocationHandle handle)
{
    const struct moietyi_driver *driver = memory->driver;
    moiety_status status = MOIETY_OK;
    if (memory->context)
        status = MOIETYI_CALL(
            driver, cuMemMap,
            (memory->address + memory->mapped_bytes, size_bytes, 0, handle, 0));
    if (status == MOIETY_OK && memory->context)
        memory->mapped_bytes += size_bytes;
    moiety_status released = MOIETYI_CALL(driver, cuMemRelease, (handle));
    if (released != MOIETY_OK)
        (void)driver->cuMemRelease(handle);
    return status;
}

moiety_status moietyi_part_make(struct moietyi_part_memory *memory,
                                uint64_t size_bytes, int *out_descriptor)
{
    const struct moietyi_driver *driver = memory->driver;
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                     .id = memory->device}};
    CUmemGenericAllocationHandle handle;
    int descriptor = -1;
    moiety_status status = MOIETYI_CALL(driver, cuMemCreate,
                                        (&handle, size_bytes, &properties, 0));
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(
        driver, cuMemExportToShareableHandle,
        (&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    *out_descriptor = descriptor; /* -1 unless it was made */
    if (status == MOIETY_OK)
        return part_map(memory, size_bytes, handle);
    if (driver->cuMemRelease(handle) != CUDA_SUCCESS)
        (void)driver->cuMemRelease(handle);
    return status;
}

moiety_status moietyi_part_take(struct moietyi_part_memory *memory,
                                uint64_t size_bytes, int descriptor)
{
    const struct moietyi_driver *driver = memory->driver;
    CUmemGenericAllocationHandle handle;
    CUresult code = driver->cuMemImportFromShareableHandle(
        &handle, (void *)(intptr_t)descriptor,
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    moiety_status status = moietyi_driver_status(
        MOIETYI_ENTRY_cuMemImportFromShareableHandle, code);
    if (code == CUDA_ERROR_UNKNOWN || code == CUDA_ERROR_INVALID_VALUE ||
        code == CUDA_ERROR_INVALID_HANDLE)
        status = moietyi_fail(MOIETY_E_CORRUPT,
                              "a descriptor of the region is no memory that "
                              "the driver shares");
    if (status == MOIETY_OK)
        status = part_map(memory, size_bytes, handle);
    /* The driver maps no handle in part, and none beyond its end. */
    if (status == MOIETY_E_INVALID ||
        (code == CUDA_SUCCESS && status == MOIETY_E_UNSUPPORTED)) {
        return moietyi_fail(MOIETY_E_CORRUPT,
                            "a handle of the region does not have the %llu "
                            "bytes that its maker said",
                            (unsigned long long)size_bytes);
    }
    return status;
}

moiety_status moietyi_part_grant(const struct moietyi_part_memory *memory,
                                 bool is_writer)
{
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = memory->device},
        .flags = is_writer ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                           : CU_MEM_ACCESS_FLAGS_PROT_READ};
    if (!memory->mapped_bytes)
        return MOIETY_OK;
    return MOIETYI_CALL(memory->driver, cuMemSetAccess,
                        (memory->address, memory->mapped_bytes, &access, 1));
}

moiety_status moietyi_part_end(struct moietyi_part_memory *memory)
{
    moiety_status status = MOIETY_OK;
    if (memory->mapped_bytes)
        status = MOIETYI_CALL(memory->driver, cuMemUnmap,
                              (memory->address, memory->mapped_bytes));
    if (status != MOIETY_OK)
        return status;
    memory->mapped_bytes = 0;
    /* The memory is given back, also if its addresses cannot be freed. */
    if (memory->address)
        part_free_addresses(memory->driver, memory->address,
                            memory->size_bytes);
    memory->address = 0;
    return MOIETY_OK;
}
