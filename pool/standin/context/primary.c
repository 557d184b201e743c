/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The primary context of each device: retained and released by count, reset at
 * once. One object per device, which a retain after a reset revives.
 */
#include "pool/standin/context/context.h"
#include "pool/standin/entries/core_api.h"

static CUresult make_alive(struct device *device)
{
    /* Waiting for a death releases the lock: look again after it. */
    while (device->primary && device->primary->is_dying)
        standin_wait();
    if (device->primary && device->primary->is_alive)
        return CUDA_SUCCESS;
    if (device->primary)
        return context_revive(device->primary, device->primary_flags);
    CUresult code =
        context_make(device, device->primary_flags, &device->primary);
    if (code == CUDA_SUCCESS)
        device->primary->is_primary = true;
    return code;
}

STANDIN_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice id)
{
    ENTER(cuDevicePrimaryCtxRetain, NEEDS_INIT);
    struct device *device = device_at(id);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    CUresult code = make_alive(device);
    if (code == CUDA_SUCCESS) {
        device->primary_references++;
        *out = device->primary;
    }
    return standin_leave(code);
}

static CUresult primary_release(CUdevice id)
{
    struct device *device = device_at(id);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (device->primary_references == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    device->primary_references--;
    if (device->primary_references == 0 && device->primary->is_alive)
        context_kill(device->primary);
    return CUDA_SUCCESS;
}

DEFINE_VERSIONS(cuDevicePrimaryCtxRelease, (CUdevice id), primary_release, id)

/* References stay: each retain still needs its release. */
static CUresult reset(CUdevice id)
{
    struct device *device = device_at(id);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (device->primary && device->primary->is_alive)
        context_kill(device->primary);
    return CUDA_SUCCESS;
}

DEFINE_VERSIONS(cuDevicePrimaryCtxReset, (CUdevice id), reset, id)

static CUresult primary_set_flags(CUdevice id, unsigned flags)
{
    struct device *device = device_at(id);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!context_flags_are_good(flags))
        return CUDA_ERROR_INVALID_VALUE;
    device->primary_flags = flags;
    if (device->primary && device->primary->is_alive)
        device->primary->flags = flags;
    return CUDA_SUCCESS;
}

DEFINE_VERSIONS(cuDevicePrimaryCtxSetFlags, (CUdevice id, unsigned flags),
                primary_set_flags, id, flags)

STANDIN_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice id, unsigned *flags,
                                                   int *is_active)
{
    ENTER(cuDevicePrimaryCtxGetState, NEEDS_INIT);
    struct device *device = device_at(id);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !is_active)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    *flags = device->primary_flags;
    *is_active = device->primary && device->primary->is_alive;
    return standin_leave(CUDA_SUCCESS);
}
