/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The journey uses nothing but the driver door. All work is enqueued before the
 * first wait, so that only the stream's order makes the bytes come out right.
 */
#include "bench/server/round_trip.h"

#include <stdbool.h>

#include "pool/driver/driver_table.h"

#define SIZE_BYTES ((size_t)4 << 20)
#define SET_FROM_BYTES (SIZE_BYTES / 4)
#define SET_BYTES (SIZE_BYTES / 2)
#define SET_VALUE 0xa5

/* What is up; NULL or 0 is not. */
struct journey {
    const struct binadei_driver *driver;
    CUdevice device;
    CUcontext context; /* the device's primary one, retained and pushed */
    CUstream stream;
    CUevent arrival; /* recorded after the last copy */
    CUdeviceptr there;
    unsigned char *departure, *back; /* pinned, SIZE_BYTES each */
};

/* Differs from page to page, so that a copy to the wrong place shows, and never
 * is SET_VALUE, whose top bit is set. */
static unsigned char pattern(size_t offset_bytes)
{
    return (offset_bytes * 31 + (offset_bytes >> 12)) & 0x7f;
}

static unsigned char expected(size_t offset_bytes)
{
    bool is_set = offset_bytes - SET_FROM_BYTES < SET_BYTES;
    return is_set ? SET_VALUE : pattern(offset_bytes);
}

static binade_status enter_context(struct journey *journey)
{
    const struct binadei_driver *driver = journey->driver;
    CUcontext context;
    binade_status status = BINADEI_CALL(driver, cuDevicePrimaryCtxRetain,
                                        (&context, journey->device));
    if (status != BINADE_OK)
        return status;
    status = BINADEI_CALL(driver, cuCtxPushCurrent, (context));
    if (status == BINADE_OK)
        journey->context = context;
    else
        (void)driver->cuDevicePrimaryCtxRelease(journey->device);
    return status;
}

static binade_status alloc_pinned(struct journey *journey, unsigned char **out)
{
    void *address;
    binade_status status =
        BINADEI_CALL(journey->driver, cuMemHostAlloc,
                     (&address, SIZE_BYTES, CU_MEMHOSTALLOC_PORTABLE));
    if (status == BINADE_OK)
        *out = address;
    return status;
}

static binade_status set_up(struct journey *journey)
{
    const struct binadei_driver *driver = journey->driver;
    binade_status status = enter_context(journey);
    if (status == BINADE_OK)
        status = BINADEI_CALL(driver, cuStreamCreate,
                              (&journey->stream, CU_STREAM_NON_BLOCKING));
    if (status == BINADE_OK)
        status = BINADEI_CALL(driver, cuEventCreate,
                              (&journey->arrival, CU_EVENT_DISABLE_TIMING));
    if (status == BINADE_OK)
        status =
            BINADEI_CALL(driver, cuMemAlloc, (&journey->there, SIZE_BYTES));
    if (status == BINADE_OK)
        status = alloc_pinned(journey, &journey->departure);
    if (status == BINADE_OK)
        status = alloc_pinned(journey, &journey->back);
    return status;
}

static binade_status enqueue(const struct journey *journey)
{
    const struct binadei_driver *driver = journey->driver;
    CUstream stream = journey->stream;
    binade_status status =
        BINADEI_CALL(driver, cuMemcpyHtoDAsync,
                     (journey->there, journey->departure, SIZE_BYTES, stream));
    if (status == BINADE_OK)
        status = BINADEI_CALL(
            driver, cuMemsetD8Async,
            (journey->there + SET_FROM_BYTES, SET_VALUE, SET_BYTES, stream));
    if (status == BINADE_OK)
        status =
            BINADEI_CALL(driver, cuMemcpyDtoHAsync,
                         (journey->back, journey->there, SIZE_BYTES, stream));
    if (status == BINADE_OK)
        status =
            BINADEI_CALL(driver, cuEventRecord, (journey->arrival, stream));
    return status;
}

static size_t count_wrong(const unsigned char *bytes)
{
    size_t wrong = 0;
    for (size_t i = 0; i < SIZE_BYTES; i++)
        wrong += bytes[i] != expected(i);
    return wrong;
}

static binade_status travel(const struct journey *journey)
{
    for (size_t i = 0; i < SIZE_BYTES; i++)
        journey->departure[i] = pattern(i);
    binade_status status = enqueue(journey);
    if (status == BINADE_OK)
        status = BINADEI_CALL(journey->driver, cuEventSynchronize,
                              (journey->arrival));
    return status;
}

/* What fails here is not reported: the journey is over, and after an error of
 * the device every one of these calls repeats that error. */
static void take_down(struct journey *journey)
{
    const struct binadei_driver *driver = journey->driver;
    if (!journey->context)
        return;
    if (journey->stream) {
        /* Copies may be under way if enqueuing stopped halfway. */
        (void)driver->cuStreamSynchronize(journey->stream);
        (void)driver->cuStreamDestroy(journey->stream);
    }
    if (journey->arrival)
        (void)driver->cuEventDestroy(journey->arrival);
    if (journey->there)
        (void)driver->cuMemFree(journey->there);
    if (journey->departure)
        (void)driver->cuMemFreeHost(journey->departure);
    if (journey->back)
        (void)driver->cuMemFreeHost(journey->back);
    CUcontext popped;
    (void)driver->cuCtxPopCurrent(&popped);
    (void)driver->cuDevicePrimaryCtxRelease(journey->device);
}

binade_status round_trip(int device, struct round_trip *out)
{
    struct journey journey = {0};
    binade_status status = binadei_driver_open(&journey.driver);
    if (status != BINADE_OK)
        return status;
    status =
        BINADEI_CALL(journey.driver, cuDeviceGet, (&journey.device, device));
    if (status == BINADE_OK)
        status = set_up(&journey);
    if (status == BINADE_OK)
        status = travel(&journey);
    if (status == BINADE_OK) {
        *out = (struct round_trip){
            .size_bytes = SIZE_BYTES,
            .set_bytes = SET_BYTES,
            .wrong_bytes = count_wrong(journey.back),
        };
    }
    take_down(&journey);
    return status;
}
