/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory pools: which there are, and how they take and give memory.
 */
#include "pool/standin/memory/pool.h"

#include <stdlib.h>

#include "pool/standin/entries/entry.h"
#include "pool/standin/entries/memory_api.h"
#include "pool/standin/settings/settings.h"

/* A pool grows by this much at once, where the device has it. */
#define SEGMENT_BYTES ((size_t)32 << 20)

static struct CUmemPoolHandle_st *pools; /* all that are not yet gone */
static struct CUmemPoolHandle_st *default_pools[STANDIN_DEVICE_MAX];
static struct CUmemPoolHandle_st *current_pools[STANDIN_DEVICE_MAX];

bool pools_are_supported(void)
{
    return settings_get()->has_memory_pools;
}

struct CUmemPoolHandle_st *pool_find(CUmemoryPool handle)
{
    for (struct CUmemPoolHandle_st *p = pools; p; p = p->next)
        if (p == handle)
            return p->is_destroyed ? NULL : p;
    return NULL;
}

static struct CUmemPoolHandle_st *pool_make(struct device *device)
{
    struct CUmemPoolHandle_st *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return NULL;
    pool->device = device;
    for (size_t i = 0; i < 3; i++)
        pool->reuse[i] = 1;
    pool->access[device->ordinal] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    pool->next = pools;
    pools = pool;
    return pool;
}

static struct CUmemPoolHandle_st *pool_default(struct device *device)
{
    struct CUmemPoolHandle_st **pool = &default_pools[device->ordinal];
    if (!*pool)
        *pool = pool_make(device);
    if (*pool)
        (*pool)->is_default = true;
    return *pool;
}

struct CUmemPoolHandle_st *pool_current(struct device *device)
{
    struct CUmemPoolHandle_st *pool = current_pools[device->ordinal];
    return pool ? pool : pool_default(device);
}

static bool pool_add_segment(struct CUmemPoolHandle_st *pool, size_t size_bytes)
{
    uint64_t address;
    if (pool->max_bytes && size_bytes > pool->max_bytes - pool->reserved_bytes)
        return false;
    if (device_memory_take(pool->device, size_bytes, &address) != CUDA_SUCCESS)
        return false;
    span_give(&pool->free, address, address + size_bytes);
    pool->reserved_bytes += size_bytes;
    if (pool->reserved_high_bytes < pool->reserved_bytes)
        pool->reserved_high_bytes = pool->reserved_bytes;
    return true;
}

static bool take_part(struct CUmemPoolHandle_st *pool, size_t size_bytes,
                      uint64_t *out_address)
{
    return span_take(&pool->free, size_bytes, SMALL_ALIGNMENT_BYTES,
                     out_address);
}

CUresult pool_take(struct CUmemPoolHandle_st *pool, size_t size_bytes,
                   uint64_t *out_address)
{
    if (size_bytes > pool->device->memory_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t part_bytes = pool_part_bytes(size_bytes);
    if (!take_part(pool, part_bytes, out_address) &&
        !((pool_add_segment(pool, round_up(part_bytes, SEGMENT_BYTES)) ||
           pool_add_segment(pool, round_up(part_bytes, GRANULE_BYTES))) &&
          take_part(pool, part_bytes, out_address)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->used_bytes += size_bytes; /* as asked for: so does the driver */
    if (pool->used_high_bytes < pool->used_bytes)
        pool->used_high_bytes = pool->used_bytes;
    return CUDA_SUCCESS;
}

/* The whole granules of a free span; empty when base >= end. */
static struct span granules_of(struct span span)
{
    return (struct span){round_up(span.base, GRANULE_BYTES),
                         span.end - span.end % GRANULE_BYTES};
}

void pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep_bytes)
{
    size_t i = pool->free.count;
    while (i-- > 0 && pool->reserved_bytes > keep_bytes) {
        struct span whole = granules_of(pool->free.spans[i]);
        uint64_t surplus_bytes =
            round_up(pool->reserved_bytes - keep_bytes, GRANULE_BYTES);
        if (whole.base >= whole.end)
            continue;
        if (whole.end - whole.base > surplus_bytes)
            whole.base = whole.end - surplus_bytes;
        span_take_exactly(&pool->free, whole.base, whole.end);
        device_memory_give(pool->device, whole.base, whole.end - whole.base);
        pool->reserved_bytes -= whole.end - whole.base;
    }
}

static void drop_if_done(struct CUmemPoolHandle_st *pool)
{
    if (!pool->is_destroyed || pool->used_bytes)
        return;
    pool_trim(pool, 0);
    struct CUmemPoolHandle_st **link = &pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    free(pool->free.spans);
    free(pool);
}

void pool_give(struct address_range *range)
{
    struct CUmemPoolHandle_st *pool = range->pool;
    size_t part_bytes = pool_part_bytes(range->size_bytes);
    span_give(&pool->free, range->base, range->base + part_bytes);
    pool->used_bytes -= range->size_bytes;
    pool_trim(pool, pool->threshold_bytes);
    drop_if_done(pool);
}

static CUresult pool_check_device(const void *argument, CUdevice device)
{
    if (!argument)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return pools_are_supported() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult answer_pool(struct CUmemPoolHandle_st *pool, CUmemoryPool *out)
{
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = pool;
    return CUDA_SUCCESS;
}

static CUresult
answer_pool_of(CUmemoryPool *out, CUdevice device,
               struct CUmemPoolHandle_st *(*choose)(struct device *))
{
    CUresult code = pool_check_device(out, device);
    if (code != CUDA_SUCCESS)
        return code;
    standin_lock();
    return standin_leave(answer_pool(choose(device_at(device)), out));
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
    ENTER(cuDeviceGetDefaultMemPool, NEEDS_INIT);
    return answer_pool_of(out, device, pool_default);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    ENTER(cuDeviceGetMemPool, NEEDS_INIT);
    return answer_pool_of(out, device, pool_current);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle)
{
    ENTER(cuDeviceSetMemPool, NEEDS_INIT);
    CUresult code = pool_check_device(handle, device);
    if (code != CUDA_SUCCESS)
        return code;
    standin_lock();
    struct CUmemPoolHandle_st *pool = pool_find(handle);
    if (!pool || pool->device != device_at(device))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    current_pools[device] = pool;
    return standin_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *properties)
{
    ENTER(cuMemPoolCreate, NEEDS_INIT);
    if (!out || !properties ||
        properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (!pools_are_supported() ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct device *device = device_at(properties->location.id);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    standin_lock();
    struct CUmemPoolHandle_st *pool = pool_make(device);
    if (pool)
        pool->max_bytes = properties->maxSize;
    return standin_leave(answer_pool(pool, out));
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    ENTER(cuMemPoolDestroy, NEEDS_INIT);
    standin_lock();
    struct CUmemPoolHandle_st *pool = pool_find(handle);
    if (!pool || pool->is_default)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    if (current_pools[pool->device->ordinal] == pool)
        current_pools[pool->device->ordinal] = NULL;
    pool->is_destroyed = true;
    drop_if_done(pool);
    return standin_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes)
{
    ENTER(cuMemPoolTrimTo, NEEDS_INIT);
    standin_lock();
    struct CUmemPoolHandle_st *pool = pool_find(handle);
    if (!pool)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    pool_trim(pool, keep_bytes);
    return standin_leave(CUDA_SUCCESS);
}
