/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * cuMemAlloc and cuMemFree as a source. A failure anywhere leaves the thread's
 * context and capture mode as they were, and no memory behind.
 */
#include "pool/segment/device_source.h"

#include "pool/driver/section.h"
#include "pool/segment/segment.h"

static binade_status device_source_reserve(void *context, size_t size_bytes,
                                           binade_devptr *out)
{
    struct binadei_context *own_context = context;
    struct binadei_section section;
    CUdeviceptr address = 0;
    binade_status status = binadei_context_enter(own_context, &section);
    if (status != BINADE_OK)
        return status;
    status =
        BINADEI_CALL(own_context->driver, cuMemAlloc, (&address, size_bytes));
    binade_status left = binadei_section_leave(&section);
    if (status == BINADE_OK && left != BINADE_OK) {
        /* The driver needs no current context to free. */
        (void)own_context->driver->cuMemFree(address);
        status = left;
    }
    if (status == BINADE_OK)
        *out = address;
    return status;
}

static binade_status device_source_release(void *context, binade_devptr address,
                                           size_t size_bytes)
{
    struct binadei_context *own_context = context;
    struct binadei_section section;
    (void)size_bytes;
    binade_status status = binadei_context_enter(own_context, &section);
    if (status != BINADE_OK)
        return status;
    status = BINADEI_CALL(own_context->driver, cuMemFree, (address));
    /* The memory is free, whatever becomes of the context. */
    (void)binadei_section_leave(&section);
    return status;
}

binade_source binadei_device_source_init(struct binadei_context *context)
{
    return (binade_source){
        .struct_size = sizeof(binade_source),
        .flags = BINADE_SOURCE_LEGACY_IPC | BINADEI_SOURCE_EXPLAINS,
        .name = "cuMemAlloc",
        .context = context,
        .reserve = device_source_reserve,
        .release = device_source_release,
    };
}
