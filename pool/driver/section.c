/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver can refuse any of these calls. A caller that stayed in our mode or
 * context would be worse off than one whose call failed, so what is refused on
 * the way out is tried once more.
 */
#include "pool/driver/section.h"

#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"

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

static CUresult section_pop(const struct binadei_driver *driver)
{
    CUcontext popped;
    CUresult code = driver->cuCtxPopCurrent(&popped);
    return code == CUDA_SUCCESS ? code : driver->cuCtxPopCurrent(&popped);
}

binade_status binadei_section_enter(const struct binadei_driver *driver,
                                    CUcontext context,
                                    struct binadei_section *out)
{
    struct binadei_section section = {driver, CU_STREAM_CAPTURE_MODE_RELAXED,
                                      context != NULL};
    if (binadei_is_forked())
        return binadei_refuse_child();
    binade_status status = BINADEI_CALL(
        driver, cuThreadExchangeStreamCaptureMode, (&section.mode));
    if (status != BINADE_OK)
        return status;
    if (context)
        status = BINADEI_CALL(driver, cuCtxPushCurrent, (context));
    if (status != BINADE_OK)
        (void)restore_mode(driver, section.mode);
    else
        *out = section;
    return status;
}

binade_status binadei_section_leave(const struct binadei_section *section)
{
    const struct binadei_driver *driver = section->driver;
    CUresult code = section->has_context ? section_pop(driver) : CUDA_SUCCESS;
    CUresult mode_code = restore_mode(driver, section->mode);
    if (code != CUDA_SUCCESS)
        return binadei_driver_status(BINADEI_ENTRY_cuCtxPopCurrent, code);
    return binadei_driver_status(
        BINADEI_ENTRY_cuThreadExchangeStreamCaptureMode, mode_code);
}
