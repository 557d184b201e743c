/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/base/device.h"

#include <stdio.h>

#include <binade/status.h>

#include "pool/driver/driver_table.h"

static const struct binadei_driver *driver;
static CUdevice device;
static CUcontext context;
binade_stream bench_device_streams[BENCH_STREAMS_MAX];
static unsigned streams_made;
static char reason[1024];

static binade_status enter(void)
{
    binade_status status = binadei_driver_open(&driver);
    if (status == BINADE_OK)
        status = BINADEI_CALL(driver, cuInit, (0));
    if (status == BINADE_OK)
        status = BINADEI_CALL(driver, cuDeviceGet, (&device, 0));
    if (status == BINADE_OK)
        status =
            BINADEI_CALL(driver, cuDevicePrimaryCtxRetain, (&context, device));
    if (status == BINADE_OK)
        status = BINADEI_CALL(driver, cuCtxSetCurrent, (context));
    return status;
}

const char *bench_device_start(unsigned stream_count)
{
    binade_status status = enter();
    while (status == BINADE_OK && streams_made < stream_count) {
        status = BINADEI_CALL(
            driver, cuStreamCreate,
            (&bench_device_streams[streams_made], CU_STREAM_NON_BLOCKING));
        streams_made += status == BINADE_OK;
    }
    if (status == BINADE_OK)
        return NULL;
    (void)snprintf(reason, sizeof(reason), "%s", binade_last_error_message());
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
