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

static CUresult restore_mode(const struct moietyi_driver *driver,
                             CUstreamCaptureMode mode)
{
    CUstreamCaptureMode given = mode;
    CUresult code = driver->cuThreadExchangeStreamCaptureMode(&given);
    given = mode;
    return code == CUDA_SUCCESS
               ? code
               : driver->cuThreadExchangeStreamCaptureMode(&given);
}

static CUresult section_pop(const struct moietyi_driver *driver)
{
    CUcontext popped;
    CUresult code = driver->cuCtxPopCurrent(&popped);
    return code == CUDA_SUCCESS ? code : driver->cuCtxPopCurrent(&popped);
}

moiety_status moietyi_section_enter(const struct moietyi_driver *driver,
                                    CUcontext context,
                                    struct moietyi_section *out)
{
    struct moietyi_section section = {driver, CU_STREAM_CAPTURE_MODE_RELAXED,
                                      context != NULL};
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    moiety_status status = MOIETYI_CALL(
        driver, cuThreadExchangeStreamCaptureMode, (&section.mode));
    if (status != MOIETY_OK)
        return status;
    if (context)
        status = MOIETYI_CALL(driver, cuCtxPushCurrent, (context));
    if (status != MOIETY_OK)
        (void)restore_mode(driver, section.mode);
    else
        *out = section;
    return status;
}

moiety_status moietyi_section_leave(const struct moietyi_section *section)
{
    const struct moietyi_driver *driver = section->driver;
    CUresult code = section->has_context ? section_pop(driver) : CUDA_SUCCESS;
    CUresult mode_code = restore_mode(driver, section->mode);
    if (code != CUDA_SUCCESS)
        return moietyi_driver_status(MOIETYI_ENTRY_cuCtxPopCurrent, code);
    return moietyi_driver_status(
        MOIETYI_ENTRY_cuThreadExchangeStreamCaptureMode, mode_code);
}
