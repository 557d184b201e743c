/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver's mapped memory as a mapper, and a mapper as a source. A failure
 * anywhere leaves the thread's context and capture mode as they were, and
 * nothing behind.
 */
#include "pool/segment/mapper.h"

#include "pool/base/failure.h"
#include "pool/base/log.h"
#include "pool/driver/probe.h"
#include "pool/driver/section.h"
#include "pool/heap/units.h"
#include "pool/segment/segment.h"

/* So that a handle of any size can be mapped by the device's largest pages. */
#define ALIGNMENT_BYTES ((size_t)64 << 20)

/* Ordinals have a bit each. */
#define PEERS_MOST 64

/* What a call of the driver is told, and what it found. */
struct job {
    CUdeviceptr address;
    size_t size_bytes;
    CUmemGenericAllocationHandle handle;
    bool is_mapped;                   /* the handle, at the address */
    uint64_t peers;                   /* a bit for each ordinal */
    CUmemAccess_flags right;          /* of these */
    int descriptor;                   /* of the handle */
    CUmemFabricHandle *fabric_handle; /* where it goes */
    enum moietyi_fabric fabric;
};

typedef moiety_status mapper_work(const struct moietyi_driver *driver,
                                  struct job *job);

static struct moietyi_context *context_of(void *mapped_device)
{
    return ((struct moietyi_mapped_device *)mapped_device)->context;
}

/* In a section of the context. What was done is done, whatever becomes of the
 * thread's own context. */
static moiety_status within(struct moietyi_context *context, mapper_work *work,
                            struct job *job)
{
    struct moietyi_section section;
    moiety_status status = moietyi_context_enter(context, &section);
    if (status != MOIETY_OK)
        return status;
    status = work(context->driver, job);
    (void)moietyi_section_leave(&section);
    return status;
}

static moiety_status locate(const struct moietyi_driver *driver,
                            CUmemLocation *out)
{
    CUdevice device;
    moiety_status status = MOIETYI_CALL(driver, cuCtxGetDevice, (&device));
    if (status == MOIETY_OK)
        *out =
            (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    return status;
}

/* The same, and the device's own limits. */
static moiety_status locate_with(const struct moietyi_driver *driver,
                                 CUdevice_attribute attribute,
                                 CUmemLocation *out, int *out_value)
{
    moiety_status status = locate(driver, out);
    return status == MOIETY_OK ? MOIETYI_CALL(driver, cuDeviceGetAttribute,
                                              (out_value, attribute, out->id))
                               : status;
}

static moiety_status do_reserve(const struct moietyi_driver *driver,
                                struct job *job)
{
    return MOIETYI_CALL(
        driver, cuMemAddressReserve,
        (&job->address, job->size_bytes, ALIGNMENT_BYTES, 0, 0));
}

static moiety_status do_release(const struct moietyi_driver *driver,
                                struct job *job)
{
    return MOIETYI_CALL(driver, cuMemAddressFree,
                        (job->address, job->size_bytes));
}

static moiety_status do_create(const struct moietyi_driver *driver,
                               struct job *job)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    moiety_status status = locate(driver, &properties.location);
    return status == MOIETY_OK
               ? MOIETYI_CALL(driver, cuMemCreate,
                              (&job->handle, job->size_bytes, &properties, 0))
               : status;
}

/* Some devices report fabric handles although the process may have none,
 * because there is no IMEX channel; then the driver makes the same memory
 * without them. */
static moiety_status create_for_fabric(const struct moietyi_driver *driver,
                                       struct job *job,
                                       const CUmemAllocationProp *properties)
{
    CUmemAllocationProp with_fabric = *properties;
    with_fabric.requestedHandleTypes =
        (CUmemAllocationHandleType)(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR |
                                    CU_MEM_HANDLE_TYPE_FABRIC);
    CUresult code =
        driver->cuMemCreate(&job->handle, job->size_bytes, &with_fabric, 0);
    if (code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY)
        return moietyi_driver_status(MOIETYI_ENTRY_cuMemCreate, code);
    moiety_status status = MOIETYI_CALL(
        driver, cuMemCreate, (&job->handle, job->size_bytes, properties, 0));
    if (status == MOIETY_OK)
        job->fabric = MOIETYI_FABRIC_REFUSED;
    return status;
}

/* Network cards may be allowed to reach it too, if the device supports that. */
static moiety_status do_create_shared(const struct moietyi_driver *driver,
                                      struct job *job)
{
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    int has_rdma = 0;
    moiety_status status = locate_with(
        driver, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
        &properties.location, &has_rdma);
    if (status != MOIETY_OK)
        return status;
    properties.allocFlags.gpuDirectRDMACapable = has_rdma != 0;
    if (job->fabric == MOIETYI_FABRIC_ASKED_FOR)
        return create_for_fabric(driver, job, &properties);
    return MOIETYI_CALL(driver, cuMemCreate,
                        (&job->handle, job->size_bytes, &properties, 0));
}

/* A device that shares the host's memory can have more than it reports, because
 * the host makes room. If a device reports no memory, or more free than in all,
 * nothing is known. */
static moiety_status do_look_free(const struct moietyi_driver *driver,
                                  struct job *job)
{
    CUmemLocation location = {.id = 0};
    int is_integrated = 0;
    size_t total_bytes = 0;
    moiety_status status = locate_with(driver, CU_DEVICE_ATTRIBUTE_INTEGRATED,
                                       &location, &is_integrated);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuMemGetInfo,
                              (&job->size_bytes, &total_bytes));
    if (is_integrated || !total_bytes || job->size_bytes > total_bytes)
        job->size_bytes = SIZE_MAX;
    return status;
}

static moiety_status do_share(const struct moietyi_driver *driver,
                              struct job *job)
{
    return MOIETYI_CALL(driver, cuMemExportToShareableHandle,
                        (&job->descriptor, job->handle,
                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

/* Handles that were created without it are INVALID_VALUE to the driver. */
static moiety_status do_share_fabric(const struct moietyi_driver *driver,
                                     struct job *job)
{
    CUresult code = driver->cuMemExportToShareableHandle(
        job->fabric_handle, job->handle, CU_MEM_HANDLE_TYPE_FABRIC, 0);
    moiety_status status =
        moietyi_driver_status(MOIETYI_ENTRY_cuMemExportToShareableHandle, code);
    if (code != CUDA_ERROR_INVALID_VALUE && code != CUDA_ERROR_NOT_PERMITTED &&
        code != CUDA_ERROR_NOT_SUPPORTED)
        return status;
    return moietyi_fail(MOIETY_E_UNSUPPORTED,
                        "the driver gives no fabric handle of the memory: it "
                        "wants an IMEX channel that this user may open");
}

static moiety_status do_destroy(const struct moietyi_driver *driver,
                                struct job *job)
{
    return MOIETYI_CALL(driver, cuMemRelease, (job->handle));
}

/* Appends a right of each device of the job; returns how many there are. */
static size_t add_peers(const struct job *job, CUmemAccessDesc *rights,
                        size_t count)
{
    for (uint64_t rest = job->peers; rest; rest &= rest - 1) {
        rights[count++] =
            (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                           .id = __builtin_ctzll(rest)},
                              .flags = job->right};
    }
    return count;
}

static moiety_status do_map(const struct moietyi_driver *driver,
                            struct job *job)
{
    CUmemAccessDesc rights[1 + PEERS_MOST] = {
        {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    moiety_status status = locate(driver, &rights[0].location);
    size_t count = add_peers(job, rights, 1);
    if (status == MOIETY_OK && !job->is_mapped) {
        status =
            MOIETYI_CALL(driver, cuMemMap,
                         (job->address, job->size_bytes, 0, job->handle, 0));
        job->is_mapped = status == MOIETY_OK;
    }
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(driver, cuMemSetAccess,
                          (job->address, job->size_bytes, rights, count));
    if (status != MOIETY_OK)
        job->is_mapped =
            driver->cuMemUnmap(job->address, job->size_bytes) != CUDA_SUCCESS;
    return status;
}

static moiety_status do_grant(const struct moietyi_driver *driver,
                              struct job *job)
{
    CUmemAccessDesc rights[PEERS_MOST];
    size_t count = add_peers(job, rights, 0);
    return MOIETYI_CALL(driver, cuMemSetAccess,
                        (job->address, job->size_bytes, rights, count));
}

static moiety_status do_unmap(const struct moietyi_driver *driver,
                              struct job *job)
{
    return MOIETYI_CALL(driver, cuMemUnmap, (job->address, job->size_bytes));
}

static moiety_status mapper_reserve(void *context, uint64_t size_bytes,
                                    moiety_devptr *out)
{
    struct job job = {.size_bytes = size_bytes};
    moiety_status status = within(context_of(context), do_reserve, &job);
    if (status == MOIETY_OK)
        *out = job.address;
    return status;
}

static moiety_status mapper_release(void *context, moiety_devptr address,
                                    uint64_t size_bytes)
{
    return within(context_of(context), do_release,
                  &(struct job){.address = address, .size_bytes = size_bytes});
}

static moiety_status mapper_create(void *context, uint64_t size_bytes,
                                   uint64_t *out_handle)
{
    struct job job = {.size_bytes = size_bytes};
    moiety_status status = within(context_of(context), do_create, &job);
    if (status == MOIETY_OK)
        *out_handle = job.handle;
    return status;
}

static moiety_status mapper_look_free(void *context, uint64_t *out_bytes)
{
    struct job job = {.size_bytes = 0};
    moiety_status status = within(context_of(context), do_look_free, &job);
    if (status == MOIETY_OK)
        *out_bytes = job.size_bytes;
    return status;
}

static enum moietyi_fabric fabric_of(struct moietyi_mapped_device *device)
{
    /* relaxed: a value that orders nothing. */
    return (enum moietyi_fabric)atomic_load_explicit(&device->fabric,
                                                     memory_order_relaxed);
}

static moiety_status mapper_create_shared(void *context, uint64_t size_bytes,
                                          uint64_t *out_handle)
{
    struct moietyi_mapped_device *device = context;
    struct job job = {.size_bytes = size_bytes, .fabric = fabric_of(device)};
    moiety_status status = within(device->context, do_create_shared, &job);
    if (status != MOIETY_OK)
        return status;
    if (job.fabric == MOIETYI_FABRIC_REFUSED &&
        /* relaxed: the next creation need not see it. */
        atomic_exchange_explicit(&device->fabric, MOIETYI_FABRIC_REFUSED,
                                 memory_order_relaxed) !=
            MOIETYI_FABRIC_REFUSED)
        moietyi_log(MOIETY_LOG_WARNING,
                    "the driver refuses fabric handles: a pool's memory can be "
                    "shared within this machine alone");
    *out_handle = job.handle;
    return MOIETY_OK;
}

static moiety_status mapper_share(void *context, uint64_t handle, int *out)
{
    struct job job = {.handle = handle};
    moiety_status status = within(context_of(context), do_share, &job);
    if (status == MOIETY_OK)
        *out = job.descriptor;
    return status;
}

static moiety_status mapper_share_fabric(void *context, uint64_t handle,
                                         CUmemFabricHandle *out)
{
    struct moietyi_mapped_device *device = context;
    struct job job = {.handle = handle, .fabric_handle = out};
    switch (fabric_of(device)) {
    case MOIETYI_FABRIC_NONE:
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the device has no fabric handles, by which memory "
                            "travels through a socket other than a UNIX one");
    case MOIETYI_FABRIC_REFUSED:
        return moietyi_fail(
            MOIETY_E_UNSUPPORTED,
            "the driver makes the pool's memory only without "
            "fabric handles: they want an IMEX channel that this "
            "user may open");
    default:
        return within(device->context, do_share_fabric, &job);
    }
}

static moiety_status mapper_destroy(void *context, uint64_t handle)
{
    return within(context_of(context), do_destroy,
                  &(struct job){.handle = handle});
}

static moiety_status mapper_map(void *context, moiety_devptr address,
                                uint64_t size_bytes, uint64_t handle,
                                uint64_t peers, bool *is_mapped)
{
    struct job job = {.address = address,
                      .size_bytes = size_bytes,
                      .handle = handle,
                      .is_mapped = *is_mapped,
                      .peers = peers,
                      .right = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    moiety_status status = within(context_of(context), do_map, &job);
    *is_mapped = job.is_mapped;
    return status;
}

static moiety_status mapper_grant(void *context, moiety_devptr address,
                                  uint64_t size_bytes, int32_t device,
                                  bool is_granted)
{
    struct job job = {.address = address,
                      .size_bytes = size_bytes,
                      .peers = UINT64_C(1) << device,
                      .right = is_granted ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                          : CU_MEM_ACCESS_FLAGS_PROT_NONE};
    return within(context_of(context), do_grant, &job);
}

static moiety_status mapper_unmap(void *context, moiety_devptr address,
                                  uint64_t size_bytes)
{
    return within(context_of(context), do_unmap,
                  &(struct job){.address = address, .size_bytes = size_bytes});
}

struct moietyi_mapper
moietyi_device_mapper_init(struct moietyi_mapped_device *device, bool is_shared)
{
    return (struct moietyi_mapper){
        .context = device,
        .reserve = mapper_reserve,
        .release = mapper_release,
        .create = is_shared ? mapper_create_shared : mapper_create,
        .look_free = mapper_look_free,
        .destroy = mapper_destroy,
        .map = mapper_map,
        .grant = mapper_grant,
        .unmap = mapper_unmap,
        .share = is_shared ? mapper_share : NULL,
        .share_fabric = is_shared ? mapper_share_fabric : NULL};
}

static bool has_entries(const struct moietyi_driver *driver)
{
    return driver->cuMemAddressReserve && driver->cuMemAddressFree &&
           driver->cuMemCreate && driver->cuMemRelease && driver->cuMemMap &&
           driver->cuMemUnmap && driver->cuMemSetAccess &&
           driver->cuMemGetAllocationGranularity;
}

static moiety_status do_probe(const struct moietyi_driver *driver,
                              struct job *job)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    int is_supported = 0;
    moiety_status status = locate_with(
        driver, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        &properties.location, &is_supported);
    if (status == MOIETY_OK && !is_supported) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "device %d has no mapped memory",
                            properties.location.id);
    }
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(
            driver, cuMemGetAllocationGranularity,
            (&job->size_bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (status == MOIETY_OK && MOIETYI_PAGE_BYTES % job->size_bytes) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "device %d maps memory in pieces of %zu bytes, "
                            "which do not divide 2 MiB",
                            properties.location.id, job->size_bytes);
    }
    return status;
}

moiety_status moietyi_device_mapper_probe(struct moietyi_context *context)
{
    struct job job = {0};
    return has_entries(context->driver)
               ? within(context, do_probe, &job)
               : moietyi_fail(MOIETY_E_UNSUPPORTED,
                              "the driver has no mapped memory");
}

/* At `address`; undone if it fails. */
static moiety_status try_map(const struct moietyi_driver *driver,
                             struct job *job)
{
    moiety_status status = do_create(driver, job);
    if (status == MOIETY_E_NO_DEVICE_MEMORY)
        return MOIETY_OK;
    if (status != MOIETY_OK)
        return status;
    status = do_map(driver, job);
    if (status == MOIETY_OK)
        status = do_unmap(driver, job);
    (void)driver->cuMemRelease(job->handle);
    return status;
}

static moiety_status do_try(const struct moietyi_driver *driver,
                            struct job *job)
{
    moiety_status status = do_reserve(driver, job);
    if (status != MOIETY_OK)
        return status;
    status = try_map(driver, job);
    (void)driver->cuMemAddressFree(job->address, job->size_bytes);
    return status;
}

moiety_status moietyi_device_mapper_try(struct moietyi_context *context)
{
    struct job job = {.size_bytes = MOIETYI_PAGE_BYTES};
    return within(context, do_try, &job);
}

static moiety_status do_probe_shared(const struct moietyi_driver *driver,
                                     struct job *job)
{
    CUmemLocation location = {.id = 0};
    int is_supported = 0;
    moiety_status status = locate_with(
        driver, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        &location, &is_supported);
    if (status == MOIETY_OK && !is_supported) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "device %d cannot share mapped memory by file "
                            "descriptors",
                            location.id);
    }
    /* Older drivers do not know the attribute. */
    if (status == MOIETY_OK &&
        driver->cuDeviceGetAttribute(
            &is_supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
            location.id) == CUDA_SUCCESS &&
        is_supported)
        job->fabric = MOIETYI_FABRIC_ASKED_FOR;
    return status;
}

moiety_status
moietyi_device_mapper_probe_shared(struct moietyi_mapped_device *device)
{
    struct job job = {.fabric = MOIETYI_FABRIC_NONE};
    moiety_status status = moietyi_device_mapper_probe(device->context);
    if (status != MOIETY_OK)
        return status;
    status = device->context->driver->cuMemExportToShareableHandle
                 ? within(device->context, do_probe_shared, &job)
                 : moietyi_fail(MOIETY_E_UNSUPPORTED,
                                "the driver cannot share mapped memory");
    /* relaxed: nobody else has the device yet. */
    atomic_store_explicit(&device->fabric, (int)job.fabric,
                          memory_order_relaxed);
    return status;
}

static moiety_status check_peer(const struct moietyi_driver *driver,
                                CUdevice own, int32_t ordinal)
{
    CUdevice device;
    int is_able = 0;
    moiety_status status =
        MOIETYI_CALL(driver, cuDeviceGet, (&device, ordinal));
    if (status == MOIETY_OK && device == own)
        return moietyi_fail(MOIETY_E_INVALID,
                            "device %d is the pool's own, and no peer",
                            ordinal);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuDeviceCanAccessPeer,
                              (&is_able, device, own));
    if (status == MOIETY_OK && !is_able)
        return moietyi_no_access(driver, ordinal, own);
    return status;
}

static moiety_status do_probe_peers(const struct moietyi_driver *driver,
                                    struct job *job)
{
    CUdevice own;
    int device_count = 0;
    moiety_status status = MOIETYI_CALL(driver, cuCtxGetDevice, (&own));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuDeviceGetCount, (&device_count));
    for (uint64_t rest = job->peers; rest && status == MOIETY_OK;
         rest &= rest - 1) {
        int32_t ordinal = __builtin_ctzll(rest);
        status = ordinal < device_count
                     ? check_peer(driver, own, ordinal)
                     : moietyi_fail(MOIETY_E_INVALID,
                                    "there is no device %d; there are %d",
                                    ordinal, device_count);
    }
    return status;
}

moiety_status moietyi_device_mapper_probe_peers(struct moietyi_context *context,
                                                uint64_t peers)
{
    struct job job = {.peers = peers};
    return within(context, do_probe_peers, &job);
}

/* The handle is released once it is mapped; its memory goes with the
 * mapping. */
static moiety_status reserve_mapped(const struct moietyi_mapper *mapper,
                                    size_t size_bytes, moiety_devptr address)
{
    uint64_t handle;
    bool is_mapped = false;
    moiety_status status = mapper->create(mapper->context, size_bytes, &handle);
    if (status != MOIETY_OK)
        return status;
    status = mapper->map(mapper->context, address, size_bytes, handle, 0,
                         &is_mapped);
    moiety_status destroyed = mapper->destroy(mapper->context, handle);
    if (status == MOIETY_OK && destroyed != MOIETY_OK)
        (void)mapper->unmap(mapper->context, address, size_bytes);
    return status == MOIETY_OK ? destroyed : status;
}

static moiety_status mapped_reserve(void *context, size_t size_bytes,
                                    moiety_devptr *out)
{
    const struct moietyi_mapper *mapper = context;
    moiety_devptr address;
    moiety_status status =
        mapper->reserve(mapper->context, size_bytes, &address);
    if (status != MOIETY_OK)
        return status;
    status = reserve_mapped(mapper, size_bytes, address);
    if (status == MOIETY_OK)
        *out = address;
    else
        (void)mapper->release(mapper->context, address, size_bytes);
    return status;
}

static moiety_status mapped_release(void *context, moiety_devptr address,
                                    size_t size_bytes)
{
    const struct moietyi_mapper *mapper = context;
    moiety_status status = mapper->unmap(mapper->context, address, size_bytes);
    if (status != MOIETY_OK)
        return status;
    /* The memory is free, even if its addresses cannot be freed. */
    (void)mapper->release(mapper->context, address, size_bytes);
    return MOIETY_OK;
}

moiety_source moietyi_mapped_source_init(struct moietyi_mapper *mapper)
{
    return (moiety_source){
        .struct_size = sizeof(moiety_source),
        .flags = MOIETYI_SOURCE_EXPLAINS,
        .name = "cuMemMap",
        .context = mapper,
        .reserve = mapped_reserve,
        .release = mapped_release,
    };
}
