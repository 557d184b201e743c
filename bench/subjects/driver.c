/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver's own allocators: cuMemAlloc(), and cuMemAllocAsync() from the
 * device's default pool with its release threshold at the maximum, without
 * which the pool gives its memory back at every synchronisation.
 */
#include "bench/base/device.h"
#include "bench/subjects/driver_pool.h"
#include "bench/subjects/subject.h"
#include "pool/driver/driver_table.h"

static const struct binadei_driver *driver;

static const char *start_malloc(unsigned thread_count, unsigned stream_count)
{
    (void)thread_count;
    (void)stream_count;
    const char *why = bench_device_start(0);
    driver = binadei_driver_opened();
    return why;
}

static uint64_t alloc_malloc(unsigned thread, size_t size_bytes,
                             unsigned stream)
{
    (void)thread;
    (void)stream;
    CUdeviceptr address;
    return driver->cuMemAlloc(&address, size_bytes) == CUDA_SUCCESS ? address
                                                                    : 0;
}

static void free_malloc(unsigned thread, uint64_t address, size_t size_bytes,
                        unsigned stream)
{
    (void)thread;
    (void)size_bytes;
    (void)stream;
    (void)driver->cuMemFree(address);
}

static const char *start_async(unsigned thread_count, unsigned stream_count)
{
    (void)thread_count;
    const char *why = bench_device_start(stream_count);
    driver = binadei_driver_opened();
    return why ? why : driver_pool_keep(driver);
}

static uint64_t alloc_async(unsigned thread, size_t size_bytes, unsigned stream)
{
    (void)thread;
    return driver_pool_alloc(driver, size_bytes, bench_device_streams[stream]);
}

static void free_async(unsigned thread, uint64_t address, size_t size_bytes,
                       unsigned stream)
{
    (void)thread;
    (void)size_bytes;
    (void)driver->cuMemFreeAsync(address, bench_device_streams[stream]);
}

/* An allocation and its free take the driver about 85 us. */
const struct subject subject_cuda_malloc = {
    .name = "cuda_malloc",
    .description = "cuMemAlloc() and cuMemFree()",
    .has_driver = true,
    .blocks_max = 2048,
    .start = start_malloc,
    .attach = bench_device_attach,
    .alloc = alloc_malloc,
    .free = free_malloc,
    .stop = bench_device_stop,
};

/* Sixteen threads wait for one another up to 35 us at every call. */
const struct subject subject_cuda_async = {
    .name = "cuda_async",
    .description = "cuMemAllocAsync(), the pool's release threshold at maximum",
    .has_streams = true,
    .has_driver = true,
    .blocks_max = 140000,
    .start = start_async,
    .attach = bench_device_attach,
    .alloc = alloc_async,
    .free = free_async,
    .stop = bench_device_stop,
};
