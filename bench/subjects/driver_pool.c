/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/subjects/driver_pool.h"

#include <dlfcn.h>
#include <string.h>

typedef CUresult default_pool_fn(CUmemoryPool *out, CUdevice device);
typedef CUresult attribute_fn(CUmemoryPool pool, CUmemPool_attribute attribute,
                              void *value);
typedef CUresult trim_fn(CUmemoryPool pool, size_t kept_bytes);

/* As cuda.h numbers them. */
#define RESERVED_CURRENT ((CUmemPool_attribute)5)
#define USED_CURRENT ((CUmemPool_attribute)7)

static CUmemoryPool pool;
static attribute_fn *get_attribute;
static trim_fn *trim_to;

/* POSIX lets a function be copied out of dlsym()'s pointer, C has no cast for
 * that. */
static bool find(const struct moietyi_driver *driver, const char *name,
                 void *out)
{
    void *symbol = dlsym(driver->library, name);
    memcpy(out, &symbol, sizeof(symbol));
    return symbol != NULL;
}

static bool set_threshold(const struct moietyi_driver *driver)
{
    default_pool_fn *default_pool;
    attribute_fn *set_attribute;
    cuuint64_t threshold_bytes = UINT64_MAX;
    (void)find(driver, "cuMemPoolGetAttribute", &get_attribute);
    (void)find(driver, "cuMemPoolTrimTo", &trim_to);
    return find(driver, "cuDeviceGetDefaultMemPool", &default_pool) &&
           find(driver, "cuMemPoolSetAttribute", &set_attribute) &&
           default_pool(&pool, 0) == CUDA_SUCCESS &&
           set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                         &threshold_bytes) == CUDA_SUCCESS;
}

const char *driver_pool_keep(const struct moietyi_driver *driver)
{
    if (driver->cuMemAllocAsync && driver->cuMemFreeAsync &&
        set_threshold(driver))
        return NULL;
    return driver->is_standin ? "the stand-in has no memory pools unless "
                                "MOIETY_STANDIN_MEMORY_POOLS=1"
                              : "this driver or device has no memory pools";
}

uint64_t driver_pool_alloc(const struct moietyi_driver *driver,
                           uint64_t size_bytes, CUstream stream)
{
    CUdeviceptr address;
    if (driver->cuMemAllocAsync(&address, size_bytes, stream) == CUDA_SUCCESS)
        return address;
    (void)driver->cuCtxSynchronize();
    return driver->cuMemAllocAsync(&address, size_bytes, stream) == CUDA_SUCCESS
               ? address
               : 0;
}

static uint64_t size_of(CUmemPool_attribute attribute)
{
    cuuint64_t bytes;
    return get_attribute &&
                   get_attribute(pool, attribute, &bytes) == CUDA_SUCCESS
               ? bytes
               : UINT64_MAX;
}

void driver_pool_sizes(const struct moietyi_driver *driver, uint64_t *out_used,
                       uint64_t *out_reserved)
{
    (void)driver;
    *out_used = size_of(USED_CURRENT);
    *out_reserved = size_of(RESERVED_CURRENT);
}

void driver_pool_empty(const struct moietyi_driver *driver)
{
    (void)driver->cuCtxSynchronize();
    if (trim_to)
        (void)trim_to(pool, 0);
}
