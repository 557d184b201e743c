/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver's own allocators: cuMemAlloc(), and cuMemAllocAsync() from the
 * device's default pool with its release threshold at the maximum, without
 * which the pool gives its memory back at every synchronisation. For
 * traces, both are counted, and tell what they have by asking the driver, so
 * that what other processes do to the device's memory counts, too.
 */
#include <stdatomic.h>
#include <string.h>

#include "bench/base/device.h"
#include "bench/subjects/driver_pool.h"
#include "bench/subjects/segments.h"
#include "pool/driver/driver_table.h"

static const struct moietyi_driver *driver;
static uint64_t limit_bytes;
static size_t free_at_start_bytes;
/* relaxed, all: sums. */
static _Atomic uint64_t handed_bytes;
static _Atomic uint64_t driver_calls;

static void begin(const struct subject_setup *setup)
{
    size_t total_bytes;
    driver = moietyi_driver_opened();
    limit_bytes = setup->limit_bytes ? setup->limit_bytes : UINT64_MAX;
    handed_bytes = 0;
    driver_calls = 0;
    if (driver->cuMemGetInfo(&free_at_start_bytes, &total_bytes) !=
        CUDA_SUCCESS)
        free_at_start_bytes = 0;
}

static const char *start_malloc(const struct subject_setup *setup)
{
    const char *why = setup->needs_streams ? subject_streams_start(setup)
                                           : bench_device_start(0);
    if (!why)
        begin(setup);
    return why;
}

static void count(uint64_t more_bytes)
{
    atomic_fetch_add_explicit(&driver_calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&handed_bytes, more_bytes, memory_order_relaxed);
}

static uint64_t alloc_malloc(uint32_t thread, size_t size_bytes,
                             uint32_t stream)
{
    (void)thread;
    (void)stream;
    CUdeviceptr address;
    return driver->cuMemAlloc(&address, size_bytes) == CUDA_SUCCESS ? address
                                                                    : 0;
}

static uint64_t alloc_malloc_counted(uint32_t thread, size_t size_bytes,
                                     uint32_t stream)
{
    uint64_t address =
        atomic_load_explicit(&handed_bytes, memory_order_relaxed) + size_bytes >
                limit_bytes
            ? 0
            : alloc_malloc(thread, size_bytes, stream);
    if (address)
        count(size_bytes);
    return address;
}

static void free_malloc(uint32_t thread, uint64_t address, size_t size_bytes,
                        uint32_t stream)
{
    (void)thread;
    (void)size_bytes;
    (void)stream;
    (void)driver->cuMemFree(address);
}

static void free_malloc_counted(uint32_t thread, uint64_t address,
                                size_t size_bytes, uint32_t stream)
{
    count(0 - (uint64_t)size_bytes);
    free_malloc(thread, address, size_bytes, stream);
}

static void measure_malloc(struct subject_memory *out)
{
    size_t free_bytes = 0;
    size_t total_bytes;
    bool is_known =
        driver->cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS &&
        free_bytes <= free_at_start_bytes;
    *out = (struct subject_memory){
        .handed_bytes = handed_bytes,
        .reserved_bytes =
            is_known ? free_at_start_bytes - free_bytes : SUBJECT_UNKNOWN,
        .driver_calls = driver_calls,
    };
}

static const char *start_async(const struct subject_setup *setup)
{
    const char *why = subject_streams_start(setup);
    if (why)
        return why;
    begin(setup);
    why = driver_pool_keep(driver);
    if (why)
        bench_device_stop();
    return why;
}

static uint64_t alloc_async(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    return driver_pool_alloc(driver, size_bytes, bench_device_streams[stream]);
}

static uint64_t alloc_async_counted(uint32_t thread, size_t size_bytes,
                                    uint32_t stream)
{
    uint64_t address = alloc_async(thread, size_bytes, stream);
    if (address)
        count(size_bytes);
    return address;
}

static void free_async(uint32_t thread, uint64_t address, size_t size_bytes,
                       uint32_t stream)
{
    (void)thread;
    (void)size_bytes;
    (void)driver->cuMemFreeAsync(address, bench_device_streams[stream]);
}

/* It has no word for work of any stream: all is waited for. */
static void free_async_counted(uint32_t thread, uint64_t address,
                               size_t size_bytes, uint32_t stream)
{
    count(0 - (uint64_t)size_bytes);
    if (stream == SUBJECT_STREAM_ANY)
        (void)driver->cuCtxSynchronize();
    if (stream == SUBJECT_STREAM_ANY || stream == SUBJECT_STREAM_DONE)
        stream = 0;
    free_async(thread, address, size_bytes, stream);
}

static void measure_async(struct subject_memory *out)
{
    *out = (struct subject_memory){.driver_calls = driver_calls};
    driver_pool_sizes(driver, &out->handed_bytes, &out->reserved_bytes);
    out->cached_bytes = out->reserved_bytes == SUBJECT_UNKNOWN
                            ? SUBJECT_UNKNOWN
                            : out->reserved_bytes - out->handed_bytes;
}

static void stop_async(void)
{
    driver_pool_empty(driver);
    bench_device_stop();
}

/* An allocation and its free take the driver about 85 us. */
const struct subject subject_workload_cuda_malloc = {
    .name = "cuda_malloc",
    .description = "cuMemAlloc() and cuMemFree()",
    .needs_driver = true,
    .blocks_max = 2048,
    .start = start_malloc,
    .attach = bench_device_attach,
    .alloc = alloc_malloc,
    .free = free_malloc,
    .stop = bench_device_stop,
};

/* Sixteen threads wait for one another up to 35 us at every call. */
const struct subject subject_workload_cuda_async = {
    .name = "cuda_async",
    .description = "cuMemAllocAsync(), the pool's release threshold at maximum",
    .has_streams = true,
    .needs_driver = true,
    .blocks_max = 140000,
    .start = start_async,
    .attach = bench_device_attach,
    .alloc = alloc_async,
    .free = free_async,
    .stop = bench_device_stop,
};

const struct subject subject_cuda_malloc = {
    .name = "cuda-malloc",
    .description = "cuMemAlloc() and cuMemFree(); a limit counts bytes asked "
                   "for",
    .needs_driver = true,
    .has_limit = true,
    .waits_to_free = true,
    .keeps_any = true,
    .start = start_malloc,
    .attach = bench_device_attach,
    .alloc = alloc_malloc_counted,
    .free = free_malloc_counted,
    .measure = measure_malloc,
    .stop = bench_device_stop,
};

const struct subject subject_cuda_async = {
    .name = "cuda-async",
    .description = "cuMemAllocAsync(), the pool's release threshold at maximum",
    .needs_driver = true,
    .keeps_any = true,
    .start = start_async,
    .attach = bench_device_attach,
    .alloc = alloc_async_counted,
    .free = free_async_counted,
    .measure = measure_async,
    .stop = stop_async,
};
