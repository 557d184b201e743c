/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/server/subjects/device.h"

static moiety_status enter_context(struct server_device *device)
{
    const struct moietyi_driver *driver = device->driver;
    CUcontext context;
    moiety_status status =
        MOIETYI_CALL(driver, cuDevicePrimaryCtxRetain, (&context, device->id));
    if (status != MOIETY_OK)
        return status;
    device->context = context;
    return MOIETYI_CALL(driver, cuCtxSetCurrent, (context));
}

static moiety_status add_stream(struct server_device *device)
{
    moiety_status status = MOIETYI_CALL(
        device->driver, cuStreamCreate,
        (&device->streams[device->stream_count], CU_STREAM_NON_BLOCKING));
    if (status == MOIETY_OK)
        device->stream_count++;
    return status;
}

moiety_status server_device_open(int index, unsigned stream_count,
                                 struct server_device *out)
{
    *out = (struct server_device){.index = index};
    moiety_status status = moietyi_driver_open(&out->driver);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(out->driver, cuInit, (0));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(out->driver, cuDeviceGet, (&out->id, index));
    if (status == MOIETY_OK)
        status = enter_context(out);
    while (status == MOIETY_OK && out->stream_count < stream_count)
        status = add_stream(out);
    return status;
}

/* What fails here is not reported: after an error of the device every call
 * repeats that error, which was reported when it came. */
void server_device_close(struct server_device *device)
{
    const struct moietyi_driver *driver = device->driver;
    if (!device->context)
        return;
    while (device->stream_count > 0)
        (void)driver->cuStreamDestroy(device->streams[--device->stream_count]);
    (void)driver->cuCtxSetCurrent(NULL);
    (void)driver->cuDevicePrimaryCtxRelease(device->id);
    device->context = NULL;
}
