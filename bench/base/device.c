/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/base/device.h"

#include <stdio.h>

#include <moiety/status.h>

#include "pool/driver/driver_table.h"

static const struct moietyi_driver *driver;
static CUdevice device;
static CUcontext context;
moiety_stream bench_device_streams[BENCH_STREAMS_MAX];
static unsigned streams_made;
static char reason[1024];

static moiety_status enter(void)
{
    moiety_status status = moietyi_driver_open(&driver);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuInit, (0));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuDeviceGet, (&device, 0));
    if (status == MOIETY_OK)
        status =
            MOIETYI_CALL(driver, cuDevicePrimaryCtxRetain, (&context, device));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuCtxSetCurrent, (context));
    return status;
}

const char *bench_device_start(unsigned stream_count)
{
    moiety_status status = enter();
    while (status == MOIETY_OK && streams_made < stream_count) {
        status = MOIETYI_CALL(
            driver, cuStreamCreate,
            (&bench_device_streams[streams_made], CU_STREAM_NON_BLOCKING));
        streams_made += status == MOIETY_OK;
    }
    if (status == MOIETY_OK)
        return NULL;
    (void)snprintf(reason, sizeof(reason), "%s", moiety_last_error_message());
    return reason;
}

bool bench_device_attach(unsigned thread)
{
    (void)thread;
    return driver->cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

void bench_device_stop(void)
{
    (void)driver->cuCtxSynchronize();
    while (streams_made > 0)
        (void)driver->cuStreamDestroy(bench_device_streams[--streams_made]);
    (void)driver->cuCtxSetCurrent(NULL);
    (void)driver->cuDevicePrimaryCtxRelease(device);
}
