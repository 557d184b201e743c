/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The probe. A feature is there if the driver has all entries that it needs and
 * the device does not say no. Nothing here makes a context.
 */
#include "pool/driver/probe.h"

#include <stddef.h>
#include <string.h>

#include "pool/base/failure.h"

/* Bytes of the driver's own copy of a name. */
#define NAME_BYTES sizeof(((moiety_caps *)NULL)->device_name)

/* A driver older than an attribute refuses it: then the answer is `otherwise`,
 * and that is no failure of ours. */
static int probe_attribute(const struct moietyi_driver *driver, CUdevice device,
                           CUdevice_attribute which, int otherwise)
{
    int value = otherwise;
    if (driver->cuDeviceGetAttribute(&value, which, device) != CUDA_SUCCESS)
        return otherwise;
    return value;
}

/* Entries that came with their feature in one driver version stand for each
 * other; those that came later are asked for one by one. */
static uint64_t features_of_entries(const struct moietyi_driver *driver)
{
    const struct {
        uint64_t feature;
        bool is_there;
    } rows[] = {
        {MOIETY_FEATURE_STREAM_IDS, driver->cuStreamGetId},
        {MOIETY_FEATURE_CONTEXT_EVENTS, driver->cuCtxRecordEvent},
        {MOIETY_FEATURE_VMM,
         driver->cuMemAddressReserve && driver->cuMemAddressFree &&
             driver->cuMemCreate && driver->cuMemRelease && driver->cuMemMap &&
             driver->cuMemUnmap && driver->cuMemSetAccess &&
             driver->cuMemGetAllocationGranularity},
        {MOIETY_FEATURE_FD_EXPORT, driver->cuMemExportToShareableHandle &&
                                       driver->cuMemImportFromShareableHandle},
        {MOIETY_FEATURE_FABRIC_EXPORT,
         driver->cuMemExportToShareableHandle &&
             driver->cuMemImportFromShareableHandle},
        {MOIETY_FEATURE_HOST_NUMA, driver->cuMemCreate},
        {MOIETY_FEATURE_MEMORY_POOLS,
         driver->cuMemAllocAsync && driver->cuMemFreeAsync},
        {MOIETY_FEATURE_LEGACY_IPC, driver->cuIpcGetMemHandle &&
                                        driver->cuIpcOpenMemHandle &&
                                        driver->cuIpcCloseMemHandle},
        {MOIETY_FEATURE_STREAM_WORDS,
         driver->cuStreamWaitValue32 && driver->cuStreamWriteValue32},
        {MOIETY_FEATURE_MANAGED_MEMORY, driver->cuMemAllocManaged},
        {MOIETY_FEATURE_HOST_REGISTER, driver->cuMemHostRegister},
        {MOIETY_FEATURE_UNIFIED_ADDRESSES, true},
        {MOIETY_FEATURE_CAPTURE_MODES,
         driver->cuThreadExchangeStreamCaptureMode},
    };
    uint64_t features = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        features |= rows[i].is_there ? rows[i].feature : 0;
    return features;
}

/* Features that an attribute of the device can deny. */
static uint64_t features_denied(const struct moietyi_driver *driver,
                                CUdevice device)
{
    static const struct {
        uint64_t feature;
        CUdevice_attribute attribute;
        int otherwise; /* where the driver does not know the attribute */
    } rows[] = {
        {MOIETY_FEATURE_VMM,
         CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0},
        {MOIETY_FEATURE_FD_EXPORT,
         CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0},
        {MOIETY_FEATURE_FABRIC_EXPORT,
         CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0},
        {MOIETY_FEATURE_HOST_NUMA,
         CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0},
        {MOIETY_FEATURE_MEMORY_POOLS,
         CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0},
        /* Older than its attribute. */
        {MOIETY_FEATURE_LEGACY_IPC, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
        {MOIETY_FEATURE_MANAGED_MEMORY, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0},
        {MOIETY_FEATURE_HOST_REGISTER,
         CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
        {MOIETY_FEATURE_UNIFIED_ADDRESSES,
         CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0},
    };
    uint64_t denied = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (probe_attribute(driver, device, rows[i].attribute,
                            rows[i].otherwise) == 0)
            denied |= rows[i].feature;
    /* Exports and placement are properties of mapped memory. */
    if (denied & MOIETY_FEATURE_VMM)
        denied |= MOIETY_FEATURE_FD_EXPORT | MOIETY_FEATURE_FABRIC_EXPORT |
                  MOIETY_FEATURE_HOST_NUMA;
    return denied;
}

static moiety_status find_granularity(const struct moietyi_driver *driver,
                                      CUdevice device, moiety_caps *out)
{
    if (!(out->features & MOIETY_FEATURE_VMM))
        return MOIETY_OK;
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
    size_t granularity_bytes = 0;
    moiety_status status = MOIETYI_CALL(
        driver, cuMemGetAllocationGranularity,
        (&granularity_bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    out->vmm_granularity_bytes = granularity_bytes;
    return status;
}

static void probe_find_place(const struct moietyi_driver *driver,
                             CUdevice device, moiety_caps *out)
{
    out->compute_major = probe_attribute(
        driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    out->compute_minor = probe_attribute(
        driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    out->pci_domain = (uint32_t)probe_attribute(
        driver, device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0);
    out->pci_bus = (uint32_t)probe_attribute(driver, device,
                                             CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0);
    out->pci_device = (uint32_t)probe_attribute(
        driver, device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0);
    out->host_numa_node =
        probe_attribute(driver, device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
}

static moiety_status find_identity(const struct moietyi_driver *driver,
                                   CUdevice device, moiety_caps *out)
{
    CUuuid uuid;
    size_t total_bytes = 0;
    moiety_status status =
        MOIETYI_CALL(driver, cuDeviceGetUuid, (&uuid, device));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuDeviceTotalMem, (&total_bytes, device));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuDeviceGetName,
                              (out->device_name, (int)NAME_BYTES, device));
    if (status != MOIETY_OK)
        return status;
    memcpy(out->uuid, uuid.bytes, sizeof(out->uuid));
    out->total_memory_bytes = total_bytes;
    out->device_name[NAME_BYTES - 1] = '\0';
    return MOIETY_OK;
}

moiety_status moietyi_check_device(const struct moietyi_driver *driver,
                                   int index, int *out_count)
{
    moiety_status status = MOIETYI_CALL(driver, cuDeviceGetCount, (out_count));
    if (status != MOIETY_OK || (index >= 0 && index < *out_count))
        return status;
    if (*out_count == 0)
        return moietyi_fail(MOIETY_E_NO_DEVICE,
                            "the driver (%s) shows no device",
                            driver->library_path);
    return moietyi_fail(
        MOIETY_E_INVALID, "device %d does not exist; the machine has %s%d",
        index, *out_count == 1 ? "device " : "devices 0 to ", *out_count - 1);
}

moiety_status moietyi_driver_probe(const struct moietyi_driver *driver,
                                   int device, moiety_caps *out)
{
    CUdevice handle = 0;
    *out = (moiety_caps){
        .struct_size = sizeof(*out),
        .is_standin = driver->is_standin,
        .driver_version = driver->version,
        .library_path = driver->library_path,
    };
    moiety_status status =
        moietyi_check_device(driver, device, &out->device_count);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuDeviceGet, (&handle, device));
    if (status != MOIETY_OK)
        return status;
    out->features =
        features_of_entries(driver) & ~features_denied(driver, handle);
    probe_find_place(driver, handle, out);
    status = find_identity(driver, handle, out);
    if (status == MOIETY_OK)
        status = find_granularity(driver, handle, out);
    return status;
}

/* Looks at the machine's IOMMU and PCI ACS too, and says no where an older one said
 * yes. */
#define STRICT_VERSION 13050

moiety_status moietyi_no_access(const struct moietyi_driver *driver, int device,
                                int of)
{
    return moietyi_fail(
        MOIETY_E_UNSUPPORTED,
        "device %d cannot access the memory of device %d%s", device, of,
        driver->version < STRICT_VERSION
            ? ""
            : "; from CUDA 13.5 on the driver asks IOMMU and PCI ACS too, "
              "unless "
              "CUDA_DISABLE_IOMMU_ACS_P2P_CAPABILITY_CHECK=1 is set");
}
