/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * cuInit, the devices and what they say of themselves. The devices are made at
 * the first cuInit and live as long as the process.
 */
#include <stdio.h>
#include <string.h>

#include "pool/standin/base/context.h"
#include "pool/standin/entries/core_api.h"
#include "pool/standin/memory/memory.h"
#include "pool/standin/settings/settings.h"

#define DEVICE_NAME "Moiety stand-in device"
#define COMPUTE_MAJOR 9
#define COMPUTE_MINOR 0
/* The last device attribute that CUDA 13.0 declares. */
#define ATTRIBUTE_LAST 147

static CUresult make_devices(const struct settings *settings)
{
    for (int i = device_count(); i < settings->device_count; i++) {
        struct device *device = device_next();
        device->ordinal = i;
        device->pci_domain = settings->pci[i].domain;
        device->pci_bus = settings->pci[i].bus;
        device->pci_device = settings->pci[i].device;
        device->memory_bytes = settings->memory_bytes;
        CUresult code = memory_device_init(device);
        if (code != CUDA_SUCCESS)
            return code;
        device_note();
    }
    return CUDA_SUCCESS;
}

static CUresult device_init_all(void)
{
    const struct settings *settings = settings_get();
    if (!settings->is_valid)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    CUresult code = make_devices(settings);
    if (code == CUDA_SUCCESS)
        standin_mark_initialised();
    return standin_leave(code);
}

STANDIN_EXPORT CUresult cuInit(unsigned flags)
{
    ENTER(cuInit, NEEDS_NOTHING);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return standin_is_initialised() ? CUDA_SUCCESS : device_init_all();
}

STANDIN_EXPORT CUresult cuDriverGetVersion(int *out)
{
    ENTER(cuDriverGetVersion, NEEDS_NOTHING);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = settings_get()->driver_version;
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuDeviceGetCount(int *out)
{
    ENTER(cuDeviceGetCount, NEEDS_INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = device_count();
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuDeviceGet(CUdevice *out, int ordinal)
{
    ENTER(cuDeviceGet, NEEDS_INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = ordinal;
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuDeviceGetName(char *out, int length, CUdevice id)
{
    ENTER(cuDeviceGetName, NEEDS_INIT);
    if (!out || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(id))
        return CUDA_ERROR_INVALID_DEVICE;
    (void)snprintf(out, (size_t)length, "%s", DEVICE_NAME);
    return CUDA_SUCCESS;
}

/* The same in every process, different for every device: the name's bytes and
 * the PCI address. */
static CUresult get_uuid(CUuuid *out, CUdevice id)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    const struct device *device = device_at(id);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(out->bytes, "moiety standin", 14);
    out->bytes[14] = (char)device->pci_bus;
    out->bytes[15] = (char)(device->pci_device * 8 + device->ordinal);
    return CUDA_SUCCESS;
}

DEFINE_VERSIONS(cuDeviceGetUuid, (CUuuid * out, CUdevice id), get_uuid, out, id)

STANDIN_EXPORT CUresult cuDeviceTotalMem_v2(size_t *out, CUdevice id)
{
    ENTER(cuDeviceTotalMem_v2, NEEDS_INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(id))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = device_at(id)->memory_bytes;
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuDeviceComputeCapability(int *out_major,
                                                  int *out_minor, CUdevice id)
{
    ENTER(cuDeviceComputeCapability, NEEDS_INIT);
    if (!out_major || !out_minor)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(id))
        return CUDA_ERROR_INVALID_DEVICE;
    *out_major = COMPUTE_MAJOR;
    *out_minor = COMPUTE_MINOR;
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuDeviceGetPCIBusId(char *out, int length, CUdevice id)
{
    ENTER(cuDeviceGetPCIBusId, NEEDS_INIT);
    const struct device *device = device_at(id);
    if (!out || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    (void)snprintf(out, (size_t)length, "%04X:%02X:%02X.0",
                   (unsigned)device->pci_domain, (unsigned)device->pci_bus,
                   (unsigned)device->pci_device);
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *out, const char *text)
{
    ENTER(cuDeviceGetByPCIBusId, NEEDS_INIT);
    unsigned domain;
    unsigned bus;
    unsigned slot;
    if (!out || !text || sscanf(text, "%4x:%2x:%2x", &domain, &bus, &slot) != 3)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < device_count(); i++) {
        const struct device *device = device_at(i);
        if ((unsigned)device->pci_domain == domain &&
            (unsigned)device->pci_bus == bus &&
            (unsigned)device->pci_device == slot) {
            *out = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

STANDIN_EXPORT CUresult cuDeviceCanAccessPeer(int *out, CUdevice id,
                                              CUdevice peer)
{
    ENTER(cuDeviceCanAccessPeer, NEEDS_INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(id) || !device_at(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = id != peer && !settings_get()->has_no_peers;
    return CUDA_SUCCESS;
}

/* What a device of this kind would say; 0 for the attributes that are not
 * listed, as for a feature that is absent. */
static int device_attribute_of(const struct device *device,
                               CUdevice_attribute what)
{
    switch (what) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return COMPUTE_MAJOR;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return COMPUTE_MINOR;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
        return device->pci_domain;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return device->pci_bus;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
        return device->pci_device;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return 132;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return 1980000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return 3201000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return 6144;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return 60 << 20;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return 3;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
        return 2;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        return settings_get()->has_memory_pools;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        return settings_get()->fabric != STANDIN_FABRIC_NONE;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
        return -1;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
        return settings_get()->host_node;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        return 1;
    default:
        return 0;
    }
}

STANDIN_EXPORT CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute what,
                                             CUdevice id)
{
    ENTER(cuDeviceGetAttribute, NEEDS_INIT);
    if (!out || (int)what <= 0 || (int)what > ATTRIBUTE_LAST)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(id))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = device_attribute_of(device_at(id), what);
    return CUDA_SUCCESS;
}
