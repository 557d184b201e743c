/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver's own allocators: cuMemAlloc(), and cuMemAllocAsync() from the
 * device's default pool with its release threshold at the maximum, without
 * which the pool gives its memory back at every synchronisation.
 */
#include <dlfcn.h>
#include <string.h>

#include "bench/device.h"
#include "bench/subject.h"
#include "pool/driver/driver_table.h"

typedef CUresult default_pool_fn(CUmemoryPool *out, CUdevice device);
typedef CUresult set_attribute_fn(CUmemoryPool pool,
                                  CUmemPool_attribute attribute, void *value);

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

/* The table has no entries for the attributes of pools: nothing but this
 * program sets any. POSIX lets a function be copied out of dlsym()'s pointer,
 * C has no cast for that. */
static bool keep_freed_memory(void)
{
    void *symbols[] = {
        dlsym(driver->library, "cuDeviceGetDefaultMemPool"),
        dlsym(driver->library, "cuMemPoolSetAttribute"),
    };
    default_pool_fn *default_pool;
    set_attribute_fn *set_attribute;
    memcpy(&default_pool, &symbols[0], sizeof(default_pool));
    memcpy(&set_attribute, &symbols[1], sizeof(set_attribute));
    cuuint64_t threshold_bytes = UINT64_MAX;
    CUmemoryPool pool;
    return default_pool && set_attribute &&
           default_pool(&pool, 0) == CUDA_SUCCESS &&
           set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                         &threshold_bytes) == CUDA_SUCCESS;
}

static const char *start_async(unsigned thread_count, unsigned stream_count)
{
    (void)thread_count;
    const char *why = bench_device_start(stream_count);
    driver = binadei_driver_opened();
    if (why)
        return why;
    if (!driver->cuMemAllocAsync || !driver->cuMemFreeAsync ||
        !keep_freed_memory())
        return driver->is_standin ? "the stand-in has no memory pools unless "
                                    "BINADE_STANDIN_MEMORY_POOLS=1"
                                  : "this driver or device has no memory pools";
    return NULL;
}

/* What was freed on a stream may not be there before the stream has come to it;
 * so who finds no memory waits for all streams once, and asks again. */
static uint64_t alloc_async(unsigned thread, size_t size_bytes, unsigned stream)
{
    (void)thread;
    CUdeviceptr address;
    CUstream on = bench_device_streams[stream];
    if (driver->cuMemAllocAsync(&address, size_bytes, on) == CUDA_SUCCESS)
        return address;
    (void)driver->cuCtxSynchronize();
    return driver->cuMemAllocAsync(&address, size_bytes, on) == CUDA_SUCCESS
               ? address
               : 0;
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
