/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver can refuse any of these calls. A caller that stayed in our mode or
 * context would be worse off than one whose call failed, so what is refused on
 * the way out is tried again.
 */
#include "pool/driver/section.h"

#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"

static CUresult restore_mode(const struct moietyi_driver *driver,
                             CUstreamCaptureMode mode)
{
    CUresult code = CUDA_ERROR_UNKNOWN;
    for (int i = 0; i < MOIETYI_UNDO_TRIES && code != CUDA_SUCCESS; i++) {
        CUstreamCaptureMode given = mode;
        code = driver->cuThreadExchangeStreamCaptureMode(&given);
    }
    return code;
}

/* A call that fails may have popped it all the same: the next would be the
 * thread's own. */
static bool is_current(const struct moietyi_driver *driver, CUcontext context)
{
    CUcontext current = context;
    (void)driver->cuCtxGetCurrent(&current);
    return current == context;
}

CUresult moietyi_section_pop(const struct moietyi_driver *driver,
                             CUcontext context)
{
    CUcontext popped;
    CUresult code = driver->cuCtxPopCurrent(&popped);
    for (int i = 1; i < MOIETYI_UNDO_TRIES && code != CUDA_SUCCESS &&
                    is_current(driver, context);
         i++)
        code = driver->cuCtxPopCurrent(&popped);
    return code;
}

moiety_status moietyi_section_enter(const struct moietyi_driver *driver,
                                    CUcontext context,
                                    struct moietyi_section *out)
{
    struct moietyi_section section = {driver, CU_STREAM_CAPTURE_MODE_RELAXED,
                                      context};
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
    CUresult code = section->context
                        ? moietyi_section_pop(driver, section->context)
                        : CUDA_SUCCESS;
    CUresult mode_code = restore_mode(driver, section->mode);
    if (code != CUDA_SUCCESS)
        return moietyi_driver_status(MOIETYI_ENTRY_cuCtxPopCurrent, code);
    return moietyi_driver_status(
        MOIETYI_ENTRY_cuThreadExchangeStreamCaptureMode, mode_code);
}
