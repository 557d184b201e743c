/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver's mapped memory as a mapper, and a mapper as a source. A failure
 * anywhere leaves the thread's context and capture mode as they were, and
 * nothing behind.
 */
#include "pool/segment/mapper.h"

#include "pool/base/failure.h"
#include "pool/buddy/units.h"
#include "pool/driver/section.h"
#include "pool/segment/segment.h"

/* So that a handle of any size can be mapped by the device's largest pages. */
#define ALIGNMENT_BYTES ((size_t)64 << 20)

/* What a call of the driver is told, and what it found. */
struct job {
    CUdeviceptr address;
    size_t size_bytes;
    CUmemGenericAllocationHandle handle;
};

typedef binade_status mapper_work(const struct binadei_driver *driver,
                                  struct job *job);

/* In a section of the context. What was done is done, whatever becomes of the
 * thread's own context. */
static binade_status within(struct binadei_context *context, mapper_work *work,
                            struct job *job)
{
    struct binadei_section section;
    binade_status status = binadei_context_enter(context, &section);
    if (status != BINADE_OK)
        return status;
    status = work(context->driver, job);
    (void)binadei_section_leave(&section);
    return status;
}

static binade_status locate(const struct binadei_driver *driver,
                            CUmemLocation *out)
{
    CUdevice device;
    binade_status status = BINADEI_CALL(driver, cuCtxGetDevice, (&device));
    if (status == BINADE_OK)
        *out =
            (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    return status;
}

static binade_status do_reserve(const struct binadei_driver *driver,
                                struct job *job)
{
    return BINADEI_CALL(
        driver, cuMemAddressReserve,
        (&job->address, job->size_bytes, ALIGNMENT_BYTES, 0, 0));
}

static binade_status do_release(const struct binadei_driver *driver,
                                struct job *job)
{
    return BINADEI_CALL(driver, cuMemAddressFree,
                        (job->address, job->size_bytes));
}

static binade_status do_create(const struct binadei_driver *driver,
                               struct job *job)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    binade_status status = locate(driver, &properties.location);
    return status == BINADE_OK
               ? BINADEI_CALL(driver, cuMemCreate,
                              (&job->handle, job->size_bytes, &properties, 0))
               : status;
}

static binade_status do_destroy(const struct binadei_driver *driver,
                                struct job *job)
{
    return BINADEI_CALL(driver, cuMemRelease, (job->handle));
}

static binade_status do_map(const struct binadei_driver *driver,
                            struct job *job)
{
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    binade_status status = locate(driver, &access.location);
    if (status == BINADE_OK)
        status =
            BINADEI_CALL(driver, cuMemMap,
                         (job->address, job->size_bytes, 0, job->handle, 0));
    if (status != BINADE_OK)
        return status;
    status = BINADEI_CALL(driver, cuMemSetAccess,
                          (job->address, job->size_bytes, &access, 1));
    if (status != BINADE_OK)
        (void)driver->cuMemUnmap(job->address, job->size_bytes);
    return status;
}

static binade_status do_unmap(const struct binadei_driver *driver,
                              struct job *job)
{
    return BINADEI_CALL(driver, cuMemUnmap, (job->address, job->size_bytes));
}

static binade_status mapper_reserve(void *context, uint64_t size_bytes,
                                    binade_devptr *out)
{
    struct job job = {.size_bytes = size_bytes};
    binade_status status = within(context, do_reserve, &job);
    if (status == BINADE_OK)
        *out = job.address;
    return status;
}

static binade_status mapper_release(void *context, binade_devptr address,
                                    uint64_t size_bytes)
{
    return within(context, do_release, &(struct job){address, size_bytes, 0});
}

static binade_status mapper_create(void *context, uint64_t size_bytes,
                                   uint64_t *out_handle)
{
    struct job job = {.size_bytes = size_bytes};
    binade_status status = within(context, do_create, &job);
    if (status == BINADE_OK)
        *out_handle = job.handle;
    return status;
}

static binade_status mapper_destroy(void *context, uint64_t handle)
{
    return within(context, do_destroy, &(struct job){0, 0, handle});
}

static binade_status mapper_map(void *context, binade_devptr address,
                                uint64_t size_bytes, uint64_t handle)
{
    return within(context, do_map, &(struct job){address, size_bytes, handle});
}

static binade_status mapper_unmap(void *context, binade_devptr address,
                                  uint64_t size_bytes)
{
    return within(context, do_unmap, &(struct job){address, size_bytes, 0});
}

struct binadei_mapper
binadei_device_mapper_init(struct binadei_context *context)
{
    return (struct binadei_mapper){.context = context,
                                   .reserve = mapper_reserve,
                                   .release = mapper_release,
                                   .create = mapper_create,
                                   .destroy = mapper_destroy,
                                   .map = mapper_map,
                                   .unmap = mapper_unmap};
}

static bool has_entries(const struct binadei_driver *driver)
{
    return driver->cuMemAddressReserve && driver->cuMemAddressFree &&
           driver->cuMemCreate && driver->cuMemRelease && driver->cuMemMap &&
           driver->cuMemUnmap && driver->cuMemSetAccess &&
           driver->cuMemGetAllocationGranularity;
}

static binade_status do_probe(const struct binadei_driver *driver,
                              struct job *job)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    int is_supported = 0;
    binade_status status = locate(driver, &properties.location);
    if (status == BINADE_OK) {
        status = BINADEI_CALL(
            driver, cuDeviceGetAttribute,
            (&is_supported,
             CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
             properties.location.id));
    }
    if (status == BINADE_OK && !is_supported) {
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "device %d has no mapped memory",
                            properties.location.id);
    }
    if (status == BINADE_OK)
        status = BINADEI_CALL(
            driver, cuMemGetAllocationGranularity,
            (&job->size_bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (status == BINADE_OK && BINADEI_PAGE_BYTES % job->size_bytes) {
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "device %d maps memory in pieces of %zu bytes, "
                            "which do not divide 2 MiB",
                            properties.location.id, job->size_bytes);
    }
    return status;
}

binade_status binadei_device_mapper_probe(struct binadei_context *context)
{
    struct job job = {0};
    return has_entries(context->driver)
               ? within(context, do_probe, &job)
               : binadei_fail(BINADE_E_UNSUPPORTED,
                              "the driver has no mapped memory");
}

/* The handle goes once it is mapped; its memory goes with the mapping. */
static binade_status reserve_mapped(const struct binadei_mapper *mapper,
                                    size_t size_bytes, binade_devptr address)
{
    uint64_t handle;
    binade_status status = mapper->create(mapper->context, size_bytes, &handle);
    if (status != BINADE_OK)
        return status;
    status = mapper->map(mapper->context, address, size_bytes, handle);
    binade_status destroyed = mapper->destroy(mapper->context, handle);
    if (status == BINADE_OK && destroyed != BINADE_OK)
        (void)mapper->unmap(mapper->context, address, size_bytes);
    return status == BINADE_OK ? destroyed : status;
}

static binade_status mapped_reserve(void *context, size_t size_bytes,
                                    binade_devptr *out)
{
    const struct binadei_mapper *mapper = context;
    binade_devptr address;
    binade_status status =
        mapper->reserve(mapper->context, size_bytes, &address);
    if (status != BINADE_OK)
        return status;
    status = reserve_mapped(mapper, size_bytes, address);
    if (status == BINADE_OK)
        *out = address;
    else
        (void)mapper->release(mapper->context, address, size_bytes);
    return status;
}

static binade_status mapped_release(void *context, binade_devptr address,
                                    size_t size_bytes)
{
    const struct binadei_mapper *mapper = context;
    binade_status status = mapper->unmap(mapper->context, address, size_bytes);
    if (status != BINADE_OK)
        return status;
    /* The memory is free, whatever becomes of its addresses. */
    (void)mapper->release(mapper->context, address, size_bytes);
    return BINADE_OK;
}

binade_source binadei_mapped_source_init(struct binadei_mapper *mapper)
{
    return (binade_source){
        .struct_size = sizeof(binade_source),
        .flags = BINADEI_SOURCE_EXPLAINS,
        .name = "cuMemMap",
        .context = mapper,
        .reserve = mapped_reserve,
        .release = mapped_release,
    };
}
