/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * cuMemAlloc and cuMemFree as a source. A failure anywhere leaves the thread's
 * context and capture mode as they were, and no memory behind.
 */
#include "pool/segment/device_source.h"

#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/segment/segment.h"

/* A caller that stayed in our mode or context would be worse off than one
 * whose call failed, so here and below what is refused is tried once more. */
static CUresult restore_mode(const struct binadei_driver *driver,
                             CUstreamCaptureMode mode)
{
    CUstreamCaptureMode given = mode;
    CUresult code = driver->cuThreadExchangeStreamCaptureMode(&given);
    given = mode;
    return code == CUDA_SUCCESS
               ? code
               : driver->cuThreadExchangeStreamCaptureMode(&given);
}

/* Undoes enter(). */
static binade_status leave(const struct binadei_driver *driver,
                           CUstreamCaptureMode mode)
{
    CUcontext popped;
    CUresult code = driver->cuCtxPopCurrent(&popped);
    if (code != CUDA_SUCCESS)
        code = driver->cuCtxPopCurrent(&popped);
    CUresult mode_code = restore_mode(driver, mode);
    if (code != CUDA_SUCCESS)
        return binadei_driver_status(BINADEI_ENTRY_cuCtxPopCurrent, code);
    return binadei_driver_status(
        BINADEI_ENTRY_cuThreadExchangeStreamCaptureMode, mode_code);
}

/* `mode` is the one to call in, and becomes what leave() needs. */
static binade_status enter(const struct binadei_device_source *source,
                           CUstreamCaptureMode *mode)
{
    const struct binadei_driver *driver = source->driver;
    if (binadei_is_forked())
        return binadei_fail(BINADE_E_FORKED,
                            "this process was forked from one that used the "
                            "library; a CUDA driver does not survive a fork");
    binade_status status =
        BINADEI_CALL(driver, cuThreadExchangeStreamCaptureMode, (mode));
    if (status != BINADE_OK)
        return status;
    status = BINADEI_CALL(driver, cuCtxPushCurrent, (source->context));
    if (status != BINADE_OK)
        (void)restore_mode(driver, *mode);
    return status;
}

static binade_status reserve(void *context, size_t size_bytes,
                             binade_devptr *out)
{
    const struct binadei_device_source *source = context;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr address = 0;
    binade_status status = enter(source, &mode);
    if (status != BINADE_OK)
        return status;
    status = BINADEI_CALL(source->driver, cuMemAlloc, (&address, size_bytes));
    binade_status left = leave(source->driver, mode);
    if (status == BINADE_OK && left != BINADE_OK) {
        /* The driver needs no current context to free. */
        (void)source->driver->cuMemFree(address);
        status = left;
    }
    if (status == BINADE_OK)
        *out = address;
    return status;
}

static binade_status release(void *context, binade_devptr address,
                             size_t size_bytes)
{
    const struct binadei_device_source *source = context;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)size_bytes;
    binade_status status = enter(source, &mode);
    if (status != BINADE_OK)
        return status;
    status = BINADEI_CALL(source->driver, cuMemFree, (address));
    /* The memory is free, whatever becomes of the context. */
    (void)leave(source->driver, mode);
    return status;
}

binade_source binadei_device_source_init(struct binadei_device_source *source,
                                         const struct binadei_driver *driver,
                                         CUcontext context)
{
    *source = (struct binadei_device_source){driver, context};
    return (binade_source){
        .struct_size = sizeof(binade_source),
        .flags = BINADE_SOURCE_LEGACY_IPC | BINADEI_SOURCE_EXPLAINS,
        .name = "cuMemAlloc",
        .context = source,
        .reserve = reserve,
        .release = release,
    };
}
