/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * cuMemAlloc and cuMemFree as a source. A failure anywhere leaves the thread's
 * context and capture mode as they were, and no memory behind.
 */
#include "pool/segment/device_source.h"

#include "pool/driver/section.h"
#include "pool/segment/segment.h"

static moiety_status device_source_reserve(void *context, size_t size_bytes,
                                           moiety_devptr *out)
{
    struct moietyi_context *own_context = context;
    struct moietyi_section section;
    CUdeviceptr address = 0;
    moiety_status status = moietyi_context_enter(own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status =
        MOIETYI_CALL(own_context->driver, cuMemAlloc, (&address, size_bytes));
    moiety_status left = moietyi_section_leave(&section);
    if (status == MOIETY_OK && left != MOIETY_OK) {
        /* The driver needs no current context to free. */
        (void)own_context->driver->cuMemFree(address);
        status = left;
    }
    if (status == MOIETY_OK)
        *out = address;
    return status;
}

static moiety_status device_source_release(void *context, moiety_devptr address,
                                           size_t size_bytes)
{
    struct moietyi_context *own_context = context;
    struct moietyi_section section;
    (void)size_bytes;
    moiety_status status = moietyi_context_enter(own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(own_context->driver, cuMemFree, (address));
    /* The memory is free, whether or not the context is restored. */
    (void)moietyi_section_leave(&section);
    return status;
}

moiety_source moietyi_device_source_init(struct moietyi_context *context)
{
    return (moiety_source){
        .struct_size = sizeof(moiety_source),
        .flags = MOIETY_SOURCE_LEGACY_IPC | MOIETYI_SOURCE_EXPLAINS,
        .name = "cuMemAlloc",
        .context = context,
        .reserve = device_source_reserve,
        .release = device_source_release,
    };
}
