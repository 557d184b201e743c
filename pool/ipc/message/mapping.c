/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A handle is imported, mapped, and given back at once: its memory lives as long
 * as the mapping.
 */
#include "pool/ipc/message/mapping.h"

#include "pool/base/failure.h"

/* As the exporter's are, so that the device's largest pages fit. */
#define ALIGNMENT_BYTES ((size_t)64 << 20)

bool moietyi_mapping_is_possible(const struct moietyi_driver *driver)
{
    return driver->cuMemImportFromShareableHandle &&
           driver->cuMemAddressReserve && driver->cuMemAddressFree &&
           driver->cuMemRelease && driver->cuMemMap && driver->cuMemUnmap &&
           driver->cuMemSetAccess;
}

static uint64_t mapping_bytes_of(const struct moietyi_received *memory)
{
    return memory->handle.segment_bytes;
}

/* The bytes are as they were sent: the channel has looked. */
static moiety_status import_by_fabric(const struct moietyi_driver *driver,
                                      CUmemFabricHandle *fabric,
                                      CUmemGenericAllocationHandle *out)
{
    CUresult code = driver->cuMemImportFromShareableHandle(
        out, fabric, CU_MEM_HANDLE_TYPE_FABRIC);
    moiety_status status = moietyi_driver_status(
        MOIETYI_ENTRY_cuMemImportFromShareableHandle, code);
    switch (code) {
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_NOT_SUPPORTED:
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the driver imports no fabric handles here: they "
                            "want a device of the fabric, and an IMEX channel "
                            "that this user may open");
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
        return moietyi_fail(MOIETY_E_STALE,
                            "the driver does not know a fabric handle of the "
                            "message: its owner has given the memory back, or "
                            "has ended, or is of another fabric");
    default:
        return status;
    }
}

/* The driver has more than one code for a file that is none of its own. */
static moiety_status import_by_descriptor(const struct moietyi_driver *driver,
                                          int descriptor,
                                          CUmemGenericAllocationHandle *out)
{
    CUresult code = driver->cuMemImportFromShareableHandle(
        out, (void *)(intptr_t)descriptor,
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (code != CUDA_ERROR_UNKNOWN && code != CUDA_ERROR_INVALID_VALUE &&
        code != CUDA_ERROR_INVALID_HANDLE)
        return moietyi_driver_status(
            MOIETYI_ENTRY_cuMemImportFromShareableHandle, code);
    (void)moietyi_driver_status(MOIETYI_ENTRY_cuMemImportFromShareableHandle,
                                code);
    return moietyi_fail(MOIETY_E_CORRUPT,
                        "a descriptor of the message is no memory that the "
                        "driver shares");
}

static moiety_status map_piece(const struct moietyi_driver *driver,
                               CUdeviceptr address, uint64_t size_bytes,
                               CUmemGenericAllocationHandle handle)
{
    CUresult code = driver->cuMemMap(address, size_bytes, 0, handle, 0);
    moiety_status status = moietyi_driver_status(MOIETYI_ENTRY_cuMemMap, code);
    if (code != CUDA_ERROR_INVALID_VALUE && code != CUDA_ERROR_NOT_SUPPORTED)
        return status;
    return moietyi_fail(MOIETY_E_CORRUPT,
                        "a piece of the message is not of the %llu bytes that "
                        "it says",
                        (unsigned long long)size_bytes);
}

static moiety_status place_piece(const struct moietyi_driver *driver,
                                 CUdeviceptr address,
                                 const struct moietyi_received *memory,
                                 size_t index)
{
    CUmemGenericAllocationHandle handle;
    moiety_status status =
        memory->fabrics
            ? import_by_fabric(driver, &memory->fabrics[index], &handle)
            : import_by_descriptor(driver, memory->descriptors[index], &handle);
    if (status != MOIETY_OK)
        return status;
    status = map_piece(driver, address, memory->sizes[index], handle);
    moiety_status released = MOIETYI_CALL(driver, cuMemRelease, (handle));
    /* Nobody would try again later. */
    if (released != MOIETY_OK)
        (void)driver->cuMemRelease(handle);
    return status;
}

static moiety_status grant_run(const struct moietyi_driver *driver,
                               CUdeviceptr address, uint64_t size_bytes)
{
    CUdevice device;
    moiety_status status = MOIETYI_CALL(driver, cuCtxGetDevice, (&device));
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return status == MOIETY_OK ? MOIETYI_CALL(driver, cuMemSetAccess,
                                              (address, size_bytes, &access, 1))
                               : status;
}

/* Maps all at `address`; `*out_bytes` is what was mapped, also of a failure. */
static moiety_status place_all(const struct moietyi_driver *driver,
                               const struct moietyi_received *memory,
                               CUdeviceptr address, uint64_t *out_bytes)
{
    moiety_status status = MOIETY_OK;
    for (size_t i = 0; i < memory->count; i++) {
        status = place_piece(driver, address + *out_bytes, memory, i);
        if (status != MOIETY_OK)
            return status;
        *out_bytes += memory->sizes[i];
    }
    return grant_run(driver, address, *out_bytes);
}

/* Nobody would try again later. */
static void mapping_undo(const struct moietyi_driver *driver,
                         CUdeviceptr address, uint64_t mapped_bytes,
                         uint64_t size_bytes)
{
    if (mapped_bytes &&
        driver->cuMemUnmap(address, mapped_bytes) != CUDA_SUCCESS)
        (void)driver->cuMemUnmap(address, mapped_bytes);
    if (driver->cuMemAddressFree(address, size_bytes) != CUDA_SUCCESS)
        (void)driver->cuMemAddressFree(address, size_bytes);
}

moiety_status moietyi_mapping_open(const struct moietyi_driver *driver,
                                   const struct moietyi_received *memory,
                                   CUdeviceptr *out)
{
    uint64_t size_bytes = mapping_bytes_of(memory);
    uint64_t mapped_bytes = 0;
    CUdeviceptr address;
    moiety_status status =
        MOIETYI_CALL(driver, cuMemAddressReserve,
                     (&address, size_bytes, ALIGNMENT_BYTES, 0, 0));
    if (status != MOIETY_OK)
        return status;
    status = place_all(driver, memory, address, &mapped_bytes);
    if (status == MOIETY_OK)
        *out = address;
    else
        mapping_undo(driver, address, mapped_bytes, size_bytes);
    return status;
}

moiety_status moietyi_mapping_close(const struct moietyi_driver *driver,
                                    CUdeviceptr address, uint64_t size_bytes)
{
    moiety_status status =
        MOIETYI_CALL(driver, cuMemUnmap, (address, size_bytes));
    /* The memory is given back, also if its addresses cannot be freed. */
    if (status == MOIETY_OK)
        mapping_undo(driver, address, 0, size_bytes);
    return status;
}
