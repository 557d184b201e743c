/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/server/introduction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/driver/driver_table.h"

#define SIZE_BYTES ((size_t)4 << 20)
#define SET_FROM_BYTES (SIZE_BYTES / 4)
#define SET_BYTES (SIZE_BYTES / 2)
#define SET_VALUE 0xa5

bool server_is_simulated(const moiety_caps *caps)
{
    const char *cost = getenv("MOIETY_STANDIN_COST");
    return caps->is_standin && cost && *cost && strcmp(cost, "none") != 0;
}

/* Nobody may take what a stand-in does, or how long it takes, for a GPU's: this
 * comes before anything else. */
static void warn_of_standin(const moiety_caps *caps)
{
    if (server_is_simulated(caps))
        printf("*** STAND-IN DRIVER: no GPU; costs are simulated "
               "(MOIETY_STANDIN_COST=%s)\n",
               getenv("MOIETY_STANDIN_COST"));
    else
        puts("*** STAND-IN DRIVER: no GPU; driver costs are those of this "
             "machine");
    puts("*** Device memory is host memory, and processors do the device's "
         "work.");
}

static void print_driver(const moiety_caps *caps)
{
    if (caps->is_standin)
        warn_of_standin(caps);
    printf("Moiety %s\n", moiety_version());
    printf("driver      %s, CUDA %d.%d\n", caps->library_path,
           caps->driver_version / 1000, caps->driver_version % 1000 / 10);
}

static void print_device(int device, const moiety_caps *caps)
{
    printf("device      %d of %d: %s, compute %d.%d, %.1f GiB\n", device,
           caps->device_count, caps->device_name, caps->compute_major,
           caps->compute_minor,
           (double)caps->total_memory_bytes / (double)(UINT64_C(1) << 30));
    printf("PCI address %04x:%02x:%02x, nearest host NUMA node %d\n",
           caps->pci_domain, caps->pci_bus, caps->pci_device,
           caps->host_numa_node);
    printf("identity    ");
    for (size_t i = 0; i < sizeof(caps->uuid); i++)
        printf("%02x%s", caps->uuid[i],
               i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
    printf("\nVMM granule %llu bytes\n",
           (unsigned long long)caps->vmm_granularity_bytes);
}

static void print_features(const moiety_caps *caps)
{
    const char *name;
    for (uint64_t bit = 1; (name = moiety_feature_name(bit)) != NULL; bit <<= 1)
        printf("  %-3s  %s\n", caps->features & bit ? "yes" : "no", name);
}

static void complain(const char *what, moiety_status status)
{
    (void)fprintf(stderr, "server: %s: %s: %s\n", what,
                  moiety_status_name(status), moiety_last_error_message());
}

/* One stream-ordered journey: pinned host memory, to the device, a part of it
 * set there, back to the host; then every byte is compared. It uses nothing but
 * the driver door, and all work is enqueued before the first wait, so that only
 * the stream's order makes the bytes come out right. */
struct round_trip {
    size_t size_bytes;  /* sent each way */
    size_t set_bytes;   /* of those, set on the device */
    size_t wrong_bytes; /* that did not come back as they should */
};

/* What is up; NULL or 0 is not. */
struct journey {
    const struct moietyi_driver *driver;
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

static moiety_status enter_context(struct journey *journey)
{
    const struct moietyi_driver *driver = journey->driver;
    CUcontext context;
    moiety_status status = MOIETYI_CALL(driver, cuDevicePrimaryCtxRetain,
                                        (&context, journey->device));
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(driver, cuCtxPushCurrent, (context));
    if (status == MOIETY_OK)
        journey->context = context;
    else
        (void)driver->cuDevicePrimaryCtxRelease(journey->device);
    return status;
}

static moiety_status alloc_pinned(struct journey *journey, unsigned char **out)
{
    void *address;
    moiety_status status =
        MOIETYI_CALL(journey->driver, cuMemHostAlloc,
                     (&address, SIZE_BYTES, CU_MEMHOSTALLOC_PORTABLE));
    if (status == MOIETY_OK)
        *out = address;
    return status;
}

static moiety_status set_up(struct journey *journey)
{
    const struct moietyi_driver *driver = journey->driver;
    moiety_status status = enter_context(journey);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuStreamCreate,
                              (&journey->stream, CU_STREAM_NON_BLOCKING));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuEventCreate,
                              (&journey->arrival, CU_EVENT_DISABLE_TIMING));
    if (status == MOIETY_OK)
        status =
            MOIETYI_CALL(driver, cuMemAlloc, (&journey->there, SIZE_BYTES));
    if (status == MOIETY_OK)
        status = alloc_pinned(journey, &journey->departure);
    if (status == MOIETY_OK)
        status = alloc_pinned(journey, &journey->back);
    return status;
}

static moiety_status enqueue(const struct journey *journey)
{
    const struct moietyi_driver *driver = journey->driver;
    CUstream stream = journey->stream;
    moiety_status status =
        MOIETYI_CALL(driver, cuMemcpyHtoDAsync,
                     (journey->there, journey->departure, SIZE_BYTES, stream));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(
            driver, cuMemsetD8Async,
            (journey->there + SET_FROM_BYTES, SET_VALUE, SET_BYTES, stream));
    if (status == MOIETY_OK)
        status =
            MOIETYI_CALL(driver, cuMemcpyDtoHAsync,
                         (journey->back, journey->there, SIZE_BYTES, stream));
    if (status == MOIETY_OK)
        status =
            MOIETYI_CALL(driver, cuEventRecord, (journey->arrival, stream));
    return status;
}

static size_t count_wrong(const unsigned char *bytes)
{
    size_t wrong = 0;
    for (size_t i = 0; i < SIZE_BYTES; i++)
        wrong += bytes[i] != expected(i);
    return wrong;
}

static moiety_status travel(const struct journey *journey)
{
    for (size_t i = 0; i < SIZE_BYTES; i++)
        journey->departure[i] = pattern(i);
    moiety_status status = enqueue(journey);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(journey->driver, cuEventSynchronize,
                              (journey->arrival));
    return status;
}

/* What fails here is not reported: the journey is over, and after an error of
 * the device every one of these calls repeats that error. */
static void take_down(struct journey *journey)
{
    const struct moietyi_driver *driver = journey->driver;
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

/* `*out` is written only when MOIETY_OK is returned; wrong bytes are no failure
 * of the call. The calling thread's current context stays. */
static moiety_status round_trip(int device, struct round_trip *out)
{
    struct journey journey = {0};
    moiety_status status = moietyi_driver_open(&journey.driver);
    if (status != MOIETY_OK)
        return status;
    status =
        MOIETYI_CALL(journey.driver, cuDeviceGet, (&journey.device, device));
    if (status == MOIETY_OK)
        status = set_up(&journey);
    if (status == MOIETY_OK)
        status = travel(&journey);
    if (status == MOIETY_OK) {
        *out = (struct round_trip){
            .size_bytes = SIZE_BYTES,
            .set_bytes = SET_BYTES,
            .wrong_bytes = count_wrong(journey.back),
        };
    }
    take_down(&journey);
    return status;
}

static enum server_exit report_round_trip(int device)
{
    struct round_trip trip = {0};
    moiety_status status = round_trip(device, &trip);
    if (status != MOIETY_OK) {
        complain("round trip", status);
        return SERVER_WRONG;
    }
    printf("round trip  %zu bytes to the device and back, %zu of them set "
           "there: ",
           trip.size_bytes, trip.set_bytes);
    if (trip.wrong_bytes == 0)
        puts("all as they should be");
    else
        printf("%zu bytes are WRONG\n", trip.wrong_bytes);
    return trip.wrong_bytes == 0 ? SERVER_OK : SERVER_WRONG;
}

enum server_exit server_introduce(int device, moiety_caps *out)
{
    moiety_caps caps = {.struct_size = sizeof(caps)};
    moiety_status status = moiety_probe(device, &caps);
    if (status != MOIETY_OK) {
        complain("probe", status);
        return status == MOIETY_E_DRIVER ? SERVER_WRONG : SERVER_NO_DRIVER;
    }
    print_driver(&caps);
    print_device(device, &caps);
    print_features(&caps);
    *out = caps;
    return report_round_trip(device);
}
