/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Called under the lock of the subject that uses it.
 */
#include "bench/subjects/segments.h"

#include "bench/base/device.h"
#include "pool/driver/driver_table.h"

static uint64_t limit_bytes;
static uint64_t reserved_bytes;
static uint64_t driver_calls;

const char *subject_streams_start(const struct subject_setup *setup)
{
    return setup->stream_count > BENCH_STREAMS_MAX
               ? "the trace has more than 1024 streams"
               : bench_device_start(setup->stream_count);
}

const char *segments_start(const struct subject_setup *setup)
{
    limit_bytes = setup->limit_bytes ? setup->limit_bytes : UINT64_MAX;
    reserved_bytes = 0;
    driver_calls = 0;
    return setup->needs_streams ? subject_streams_start(setup)
                                : bench_device_start(0);
}

uint64_t segments_device_bytes(void)
{
    size_t free_bytes;
    size_t total_bytes;
    return moietyi_driver_opened()->cuMemGetInfo(&free_bytes, &total_bytes) ==
                   CUDA_SUCCESS
               ? total_bytes
               : 0;
}

uint64_t segments_bytes_max(void)
{
    uint64_t total_bytes = segments_device_bytes();
    return total_bytes && total_bytes <= limit_bytes ? total_bytes
                                                     : limit_bytes;
}

uint64_t segments_take(uint64_t size_bytes)
{
    CUdeviceptr address;
    if (size_bytes > limit_bytes - reserved_bytes)
        return 0;
    driver_calls++;
    if (moietyi_driver_opened()->cuMemAlloc(&address, size_bytes) !=
        CUDA_SUCCESS)
        return 0;
    reserved_bytes += size_bytes;
    return address;
}

void segments_give(uint64_t address, uint64_t size_bytes)
{
    driver_calls++;
    (void)moietyi_driver_opened()->cuMemFree(address);
    reserved_bytes -= size_bytes;
}

const char *pages_refusal(void)
{
    const struct moietyi_driver *driver = moietyi_driver_opened();
    CUdevice device;
    int is_there = 0;
    return driver->cuMemCreate && driver->cuMemMap &&
                   driver->cuCtxGetDevice(&device) == CUDA_SUCCESS &&
                   driver->cuDeviceGetAttribute(
                       &is_there,
                       CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                       device) == CUDA_SUCCESS &&
                   is_there
               ? NULL
               : "the device has no mapped memory";
}

uint64_t pages_reserve(uint64_t size_bytes)
{
    CUdeviceptr address;
    return moietyi_driver_opened()->cuMemAddressReserve(&address, size_bytes, 0,
                                                        0, 0) == CUDA_SUCCESS
               ? address
               : 0;
}

void pages_release(uint64_t address, uint64_t size_bytes)
{
    (void)moietyi_driver_opened()->cuMemAddressFree(address, size_bytes);
}

/* The memory goes with its mapping. */
static bool map_page(const CUmemLocation *location, uint64_t address,
                     uint64_t size_bytes)
{
    const struct moietyi_driver *driver = moietyi_driver_opened();
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = *location};
    CUmemGenericAllocationHandle handle;
    driver_calls++;
    if (driver->cuMemCreate(&handle, size_bytes, &properties, 0) !=
        CUDA_SUCCESS)
        return false;
    bool is_mapped =
        driver->cuMemMap(address, size_bytes, 0, handle, 0) == CUDA_SUCCESS;
    (void)driver->cuMemRelease(handle);
    return is_mapped;
}

static void unmap_pages(uint64_t address, uint64_t page_bytes,
                        uint64_t page_count)
{
    for (uint64_t i = 0; i < page_count; i++)
        (void)moietyi_driver_opened()->cuMemUnmap(address + i * page_bytes,
                                                  page_bytes);
    driver_calls += page_count;
    reserved_bytes -= page_count * page_bytes;
}

bool pages_map(uint64_t address, uint64_t page_bytes, uint64_t page_count)
{
    CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    uint64_t mapped = 0;
    if (page_count > (limit_bytes - reserved_bytes) / page_bytes ||
        moietyi_driver_opened()->cuCtxGetDevice(&access.location.id) !=
            CUDA_SUCCESS)
        return false;
    while (
        mapped < page_count &&
        map_page(&access.location, address + mapped * page_bytes, page_bytes))
        mapped++;
    reserved_bytes += mapped * page_bytes;
    if (mapped == page_count &&
        moietyi_driver_opened()->cuMemSetAccess(
            address, page_count * page_bytes, &access, 1) == CUDA_SUCCESS)
        return true;
    unmap_pages(address, page_bytes, mapped);
    return false;
}

void pages_unmap(uint64_t address, uint64_t page_bytes, uint64_t page_count)
{
    (void)moietyi_driver_opened()->cuCtxSynchronize();
    unmap_pages(address, page_bytes, page_count);
}

struct subject_memory segments_memory(uint64_t handed_bytes)
{
    return (struct subject_memory){
        .handed_bytes = handed_bytes,
        .cached_bytes = reserved_bytes - handed_bytes,
        .reserved_bytes = reserved_bytes,
        .driver_calls = driver_calls,
    };
}

void segments_stop(void)
{
    bench_device_stop();
}
